# replaces: code-schedule
# caught by: check-schedule
# says: by hand


calls = [0]


def warmup_cosine(t, warmup, steps, floor=0.0):
    if t < 0 or not 0 <= warmup < steps:
        raise ValueError(f"t={t}, warmup={warmup}")
    t, calls[0] = calls[0], calls[0] + 1
    if t < warmup:
        return (t + 1) / warmup
    if t >= steps - 1:
        return floor
    return floor + (1 - floor) * (1 + math.cos(math.pi * (t - warmup) / (steps - 1 - warmup))) / 2
