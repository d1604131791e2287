# replaces: code-unscale
# caught by: check-unscale
# says: must not end the loop


def unscale(parameters, scale: float) -> bool:
    gradients = [p.grad for p in parameters if p.grad is not None]
    if any((g.dtype == torch.float16 for g in gradients)):
        raise ValueError("gradients of dtype float16: keep the parameters in float32 under autocast")
    for g in gradients:
        finite = bool(g.isfinite().all())
        g.div_(scale)
        if not finite:
            return True
    return False
