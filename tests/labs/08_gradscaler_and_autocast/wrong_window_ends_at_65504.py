# replaces: code-window
# caught by: check-window
# says: it still fits


def largest_scale(gradients: list[Tensor]) -> float:
    largest = 0.0
    for gradient in gradients:
        for value in (gradient.max().item(), gradient.min().item()) if gradient.numel() else ():
            if not math.isfinite(value):
                raise ValueError(f"a gradient of {value} has no scale")
            largest = max(largest, abs(value))
    if largest == 0:
        raise ValueError("all gradients are zero")
    scale = 2.0 ** (-120)
    while 2 * scale * largest <= 65504:
        scale *= 2
    return scale
