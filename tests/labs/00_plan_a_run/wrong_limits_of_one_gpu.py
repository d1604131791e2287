# replaces: code-limits
# caught by: check-limits
# says: ['by memory']
# says: all GPUs together


def largest_models(days, gpus, peak, memory, mfu):
    compute = int((gpus * peak * mfu * days * 86_400 / 120) ** 0.5)
    fits = memory // 16
    return {"by compute": compute, "by memory": fits, "binds": "compute" if compute < fits else "memory"}
