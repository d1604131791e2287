# replaces: code-limits
# caught by: check-limits
# says: ['by memory']
# says: whole parameters only


def largest_models(days, gpus, peak, memory, mfu):
    budget = days * 86_400 * gpus * peak * mfu
    sizes = {"by compute": int((budget / 120) ** 0.5), "by memory": gpus * memory / 16}
    return sizes | {"binds": "compute" if sizes["by compute"] < sizes["by memory"] else "memory"}
