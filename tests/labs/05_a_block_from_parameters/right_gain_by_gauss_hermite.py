# replaces: code-gain


def gain(activation):
    nodes, weights = np.polynomial.hermite.hermgauss(200)
    z = torch.tensor(nodes) * math.sqrt(2)
    return 1 / math.sqrt(float((torch.tensor(weights) * activation(z).square()).sum()) / math.sqrt(math.pi))
