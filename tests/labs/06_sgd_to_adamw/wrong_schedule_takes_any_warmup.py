# replaces: code-schedule
# caught by: check-schedule
# says: ValueError to be raised
# says: a warm-up at least 0 and below steps


def warmup_cosine(t, warmup, steps, floor=0.0):
    if t < 0:
        raise ValueError(f"t={t}")
    if t < warmup:
        return (t + 1) / warmup
    if t >= steps - 1:
        return floor
    done = (t - warmup) / (steps - 1 - warmup)
    return floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2
