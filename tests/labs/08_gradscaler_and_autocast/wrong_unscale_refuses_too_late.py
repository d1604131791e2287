# replaces: code-unscale
# caught by: check-unscale
# says: before you divide the first


def unscale(parameters, scale: float) -> bool:
    gradients = [p.grad for p in parameters if p.grad is not None]
    overflow = not all((g.isfinite().all() for g in gradients))
    for g in gradients:
        if g.dtype == torch.float16:
            raise ValueError("float16")
        g.div_(scale)
    return overflow
