# replaces: code-schedule
# caught by: check-schedule
# says: by hand


def warmup_cosine(t, warmup, steps, floor=0.0):
    if t < 0 or not 0 <= warmup < steps:
        raise ValueError(f"t={t}, warmup={warmup}, steps={steps}")
    if t < warmup:
        return (t + 1) / warmup
    if t >= steps - 1:
        return floor
    done = (t - warmup) / (steps - 1 - warmup)
    return floor + (1 - floor) * (1 + math.cos(2 * math.pi * done)) / 2
