# replaces: code-gain
# caught by: check-gain
# says: not the variance


def gain(activation) -> float:
    z = torch.linspace(-10, 10, 20_001, dtype=torch.float64)
    weights = torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) / 1000
    y = activation(z)
    mean = (weights * y).sum()
    return (weights * (y - mean) ** 2).sum().item() ** -0.5
