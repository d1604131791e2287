# replaces: code-unscale
# caught by: check-unscale
# says: NaN is an overflow too


def unscale(parameters, scale: float) -> bool:
    gradients = [p.grad for p in parameters if p.grad is not None]
    if any((g.dtype == torch.float16 for g in gradients)):
        raise ValueError("gradients of dtype float16: keep the parameters in float32 under autocast")
    overflow = any((g.isinf().any() for g in gradients))
    for g in gradients:
        g.div_(scale)
    return overflow
