# replaces: code-limits


def largest_models(days, gpus, peak, memory, mfu):
    budget = gpus * peak * mfu * days * 86_400
    low, high = 0, 10**15
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if 6 * middle * 20 * middle <= budget else (low, middle)
    fits = gpus * memory // 16
    return {"by memory": fits, "by compute": low, "binds": "memory" if fits < low else "compute"}
