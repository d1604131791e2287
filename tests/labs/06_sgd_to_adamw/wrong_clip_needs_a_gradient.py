# replaces: code-clip
# caught by: check-clip
# says: no gradient at all is a norm of 0


def clip_gradients(parameters, max_norm):
    parameters = [p for p in parameters if p.grad is not None]
    norm = torch.cat([p.grad.flatten() for p in parameters]).norm()
    if not norm.isfinite():
        raise RuntimeError(f"norm {norm}")
    for p in parameters:
        p.grad *= (max_norm / (norm + 1e-6)).clamp(max=1)
    return norm
