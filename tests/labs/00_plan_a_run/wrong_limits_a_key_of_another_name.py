# replaces: code-limits
# caught by: check-limits
# says: something that has 'by compute'


def largest_models(days, gpus, peak, memory, mfu):
    compute = int((gpus * peak * mfu * days * 86_400 / 120) ** 0.5)
    fits = gpus * memory // 16
    return {"compute": compute, "memory": fits, "binds": "compute" if compute < fits else "memory"}
