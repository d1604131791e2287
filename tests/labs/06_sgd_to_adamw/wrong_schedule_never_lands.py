# replaces: code-schedule
# caught by: check-schedule
# says: 6 steps from 4 to 10, the last


def warmup_cosine(t, warmup, steps, floor=0.0):
    if t < 0 or not 0 <= warmup < steps:
        raise ValueError(f"t={t}, warmup={warmup}, steps={steps}")
    if t < warmup:
        return (t + 1) / warmup
    if t >= steps:
        return floor
    done = (t - warmup) / (steps - warmup)
    return floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2
