# replaces: code-window
# caught by: check-window
# says: compute with Python's floats


def largest_scale(gradients):
    values = torch.cat([g.flatten() for g in gradients]) if gradients else torch.zeros(1)
    for value in values.tolist():
        if not math.isfinite(value):
            raise ValueError(f"not finite: {value}")
    if not values.any():
        raise ValueError("zero")
    fits = [k for k in range(-120, 170) if not (values * 2.0**k).half().isinf().any()]
    return 2.0 ** max(fits)
