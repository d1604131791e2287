# replaces: code-swap


def swapped(x, a, b):
    order = list(range(x.ndim))
    order[a], order[b] = order[b], order[a]
    return torch.as_strided(x, [x.size(place) for place in order], [x.stride(place) for place in order])
