# replaces: code-gain
# caught by: check-gain
# says: weights that add up to 1


def gain(activation) -> float:
    z = torch.linspace(-10, 10, 20_001, dtype=torch.float64)
    weights = torch.exp(-(z**2) / 2) / 1000
    return (weights * activation(z) ** 2).sum().item() ** -0.5
