# replaces: code-roof
# caught by: check-roof
# says: 80 bytes/s by y


def measured_roof(work):
    for name, (_, _, seconds) in work.items():
        if seconds <= 0:
            raise ValueError(f"{name}: {seconds} seconds")
    return max(f / s for f, _, s in work.values()), max(f / b for f, b, _ in work.values())


def bound(flops, nbytes, peak, bandwidth):
    intensity, ridge = flops / nbytes, peak / bandwidth
    limit = "memory" if intensity < ridge else "arithmetic"
    return {"intensity": intensity, "ridge": ridge, "limit": limit, "seconds": max(flops / peak, nbytes / bandwidth)}
