# replaces: code-unscale


def unscale(parameters, scale):
    parameters = [p for p in parameters if p.grad is not None]
    for p in dict.fromkeys(parameters):
        if p.grad.dtype is torch.half:
            raise ValueError(f"cannot unscale {p.grad.dtype}")
    bad = torch.zeros((), dtype=torch.bool)
    for p in dict.fromkeys(parameters):
        bad = bad | ((p.grad - p.grad) != 0).any().cpu()
        p.grad = p.grad * (1 / scale)
    return bool(bad)
