# replaces: code-clip
# caught by: check-clip
# says: raise first and shorten afterwards


def clip_gradients(parameters, max_norm):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
    if norm > max_norm:
        for g in gradients:
            g.mul_(max_norm / (norm + 1e-6))
    if not math.isfinite(norm):
        raise RuntimeError(f"norm {norm}")
    return norm
