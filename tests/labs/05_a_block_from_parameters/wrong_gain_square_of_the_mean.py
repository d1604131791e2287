# replaces: code-gain
# caught by: check-gain
# says: the sum of z²


def gain(activation) -> float:
    z = torch.linspace(-10, 10, 20_001, dtype=torch.float64)
    weights = torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) / 1000
    return 1 / abs((weights * activation(z)).sum().item())
