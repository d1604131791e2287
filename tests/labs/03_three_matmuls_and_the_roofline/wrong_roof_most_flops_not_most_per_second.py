# replaces: code-roof
# caught by: check-roof
# says: divide by the seconds before you compare


def measured_roof(work):
    for name, (_, _, seconds) in work.items():
        if seconds <= 0:
            raise ValueError(f"{name}: {seconds} seconds")
    return (lambda a, b: (a[0] / a[2], b[1] / b[2]))(max(work.values()), max(work.values(), key=lambda w: w[1]))


def bound(flops, nbytes, peak, bandwidth):
    intensity, ridge = flops / nbytes, peak / bandwidth
    limit = "memory" if intensity < ridge else "arithmetic"
    return {"intensity": intensity, "ridge": ridge, "limit": limit, "seconds": max(flops / peak, nbytes / bandwidth)}
