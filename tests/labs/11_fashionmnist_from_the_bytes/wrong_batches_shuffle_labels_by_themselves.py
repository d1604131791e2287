# replaces: code-batches
# caught by: check-batches
# says: same piece of the same order


def split(n, held, seed):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return order[held:], order[:held]


def batches(x, y, size, seed):
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    generator = torch.Generator().manual_seed(seed + 1)
    other = torch.randperm(len(x), generator=generator)
    for start in range(0, len(x), size):
        piece = order[start : start + size]
        yield x[piece], y[other[start : start + size]]
