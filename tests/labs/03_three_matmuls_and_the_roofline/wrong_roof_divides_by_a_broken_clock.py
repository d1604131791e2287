# replaces: code-roof
# caught by: check-roof
# says: look at the seconds of every program first


def measured_roof(work):
    return max(f / s for f, _, s in work.values()), max(b / s for _, b, s in work.values())


def bound(flops, nbytes, peak, bandwidth):
    intensity, ridge = flops / nbytes, peak / bandwidth
    least = max(flops / peak, nbytes / bandwidth)
    return {"intensity": intensity, "ridge": ridge, "limit": "memory" if intensity < ridge else "arithmetic", "seconds": least}
