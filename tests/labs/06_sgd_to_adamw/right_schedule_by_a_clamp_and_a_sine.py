# replaces: code-schedule


def warmup_cosine(t, warmup, steps, floor=0.0):
    for name, number, fine in (("t", t, t >= 0), ("warmup", warmup, 0 <= warmup < steps)):
        if not fine:
            raise ValueError(f"{name} = {number}")
    rising = (t + 1) / max(warmup, 1)
    left = min(max(steps - 1 - t, 0) / max(steps - 1 - warmup, 1), 1.0)
    falling = floor + (1 - floor) * math.sin(left * math.pi / 2) ** 2
    return rising if t < warmup else falling
