# replaces: code-gain
# caught by: check-gain
# says: too coarse


def gain(activation) -> float:
    z = torch.randn(10_000, generator=torch.Generator().manual_seed(0)).double()
    weights = torch.full_like(z, 1 / len(z))
    return (weights * activation(z) ** 2).sum().item() ** -0.5
