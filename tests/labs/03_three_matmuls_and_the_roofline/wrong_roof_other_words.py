# replaces: code-roof
# caught by: check-roof
# says: No other words


def measured_roof(work):
    for name, (_, _, seconds) in work.items():
        if seconds <= 0:
            raise ValueError(f"{name}: {seconds} seconds")
    return max(f / s for f, _, s in work.values()), max(b / s for _, b, s in work.values())


def bound(flops, nbytes, peak, bandwidth):
    intensity, ridge = flops / nbytes, peak / bandwidth
    limit = "bandwidth" if intensity < ridge else "compute"
    return {"intensity": intensity, "ridge": ridge, "limit": limit, "seconds": max(flops / peak, nbytes / bandwidth)}
