# replaces: code-roof
# caught by: check-roof
# says: ValueError with the program's name


def measured_roof(work):
    good = [each for each in work.values() if each[2] > 0]
    return max(f / s for f, _, s in good), max(b / s for _, b, s in good)


def bound(flops, nbytes, peak, bandwidth):
    intensity, ridge = flops / nbytes, peak / bandwidth
    least = max(flops / peak, nbytes / bandwidth)
    return {"intensity": intensity, "ridge": ridge, "limit": "memory" if intensity < ridge else "arithmetic", "seconds": least}
