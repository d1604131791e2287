# replaces: code-clip
# caught by: check-clip
# says: one factor for all


def clip_gradients(parameters, max_norm):
    gradients = [p.grad for p in parameters if p.grad is not None]
    norm = math.sqrt(sum(g.square().sum().item() for g in gradients))
    for g in gradients:
        g.clamp_(-max_norm, max_norm)
    return norm
