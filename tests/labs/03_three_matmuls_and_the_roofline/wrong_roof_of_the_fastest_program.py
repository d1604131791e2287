# replaces: code-roof
# caught by: check-roof
# says: Two maxima of rates


def measured_roof(work):
    for name, (_, _, seconds) in work.items():
        if seconds <= 0:
            raise ValueError(f"{name}: {seconds} seconds")
    return (lambda best: (best[0] / best[2], best[1] / best[2]))(max(work.values(), key=lambda w: w[0] / w[2]))


def bound(flops, nbytes, peak, bandwidth):
    intensity, ridge = flops / nbytes, peak / bandwidth
    limit = "memory" if intensity < ridge else "arithmetic"
    return {"intensity": intensity, "ridge": ridge, "limit": limit, "seconds": max(flops / peak, nbytes / bandwidth)}
