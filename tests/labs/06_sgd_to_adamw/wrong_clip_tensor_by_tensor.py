# replaces: code-clip
# caught by: check-clip
# says: one norm over all tensors


def clip_gradients(parameters, max_norm):
    norms = []
    for p in parameters:
        if p.grad is not None:
            norm = p.grad.norm().item()
            norms.append(norm)
            p.grad.mul_(min(1.0, max_norm / (norm + 1e-6)))
    return math.hypot(*norms)
