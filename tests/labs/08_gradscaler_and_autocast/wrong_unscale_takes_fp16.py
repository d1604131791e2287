# replaces: code-unscale
# caught by: check-unscale
# says: ask each gradient for its dtype


def unscale(parameters, scale: float) -> bool:
    gradients = [p.grad for p in parameters if p.grad is not None]
    overflow = not all((g.isfinite().all() for g in gradients))
    for g in gradients:
        g.div_(scale)
    return overflow
