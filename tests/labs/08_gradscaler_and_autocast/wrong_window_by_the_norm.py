# replaces: code-window
# caught by: check-window
# says: it still fits


def largest_scale(gradients):
    total = sum(g.double().square().sum().item() for g in gradients)
    if not math.isfinite(total):
        raise ValueError(f"not finite: {total}")
    if total == 0:
        raise ValueError("zero")
    return 2.0 ** math.floor(math.log2(65519.99 / math.sqrt(total)))
