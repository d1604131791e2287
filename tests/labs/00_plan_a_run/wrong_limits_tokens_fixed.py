# replaces: code-limits
# caught by: check-limits
# says: ['by compute']
# says: 120 N²


def largest_models(days, gpus, peak, memory, mfu):
    compute = int(gpus * peak * mfu * days * 86_400 / (6 * 20))
    fits = gpus * memory // 16
    return {"by compute": compute, "by memory": fits, "binds": "compute" if compute < fits else "memory"}
