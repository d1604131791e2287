# replaces: code-clip
# caught by: check-clip
# says: never above 1


def clip_gradients(parameters, max_norm):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
    for g in gradients:
        g.mul_(max_norm / (norm + 1e-6))
    return norm
