# replaces: code-roof
# caught by: check-roof
# says: on the ridge and right of it


def measured_roof(work):
    for name, (_, _, seconds) in work.items():
        if seconds <= 0:
            raise ValueError(f"{name}: {seconds} seconds")
    return max(f / s for f, _, s in work.values()), max(b / s for _, b, s in work.values())


def bound(flops, nbytes, peak, bandwidth):
    intensity, ridge = flops / nbytes, peak / bandwidth
    limit = "memory" if intensity <= ridge else "arithmetic"
    return {"intensity": intensity, "ridge": ridge, "limit": limit, "seconds": max(flops / peak, nbytes / bandwidth)}
