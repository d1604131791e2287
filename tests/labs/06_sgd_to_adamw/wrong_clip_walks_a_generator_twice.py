# replaces: code-clip
# caught by: check-clip
# says: parameters may be a generator


def clip_gradients(parameters, max_norm):
    norm = math.sqrt(sum(p.grad.square().sum().item() for p in parameters if p.grad is not None))
    if not math.isfinite(norm):
        raise RuntimeError(f"norm {norm}")
    for p in parameters:
        if p.grad is not None and norm > max_norm:
            p.grad.mul_(max_norm / (norm + 1e-6))
    return norm
