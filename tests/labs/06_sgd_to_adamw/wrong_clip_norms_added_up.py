# replaces: code-clip
# caught by: check-clip
# says: one norm over all tensors


def clip_gradients(parameters, max_norm):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = sum(g.norm().item() for g in gradients)
    for g in gradients:
        g.mul_(min(1.0, max_norm / (norm + 1e-6)))
    return norm
