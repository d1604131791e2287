# replaces: code-gain


def gain(activation):
    shares = (torch.arange(2_000_000, dtype=torch.float64) + 0.5) / 2_000_000
    return float(activation(torch.special.ndtri(shares)).pow(2).mean().rsqrt())
