# replaces: code-gain
# caught by: check-gain
# says: weights that add up to 1


def gain(activation) -> float:
    z = torch.linspace(-3, 3, 6_001, dtype=torch.float64)
    weights = torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) / 1000
    return (weights * activation(z) ** 2).sum().item() ** -0.5
