# replaces: code-unscale
# caught by: check-unscale
# says: is left out


def unscale(parameters, scale: float) -> bool:
    gradients = [p.grad for p in parameters]
    if any((g.dtype == torch.float16 for g in gradients)):
        raise ValueError("gradients of dtype float16: keep the parameters in float32 under autocast")
    overflow = not all((g.isfinite().all() for g in gradients))
    for g in gradients:
        g.div_(scale)
    return overflow
