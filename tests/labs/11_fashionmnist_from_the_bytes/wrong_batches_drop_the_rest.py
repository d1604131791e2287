# replaces: code-batches
# caught by: check-batches
# says: neither dropped nor filled up


def split(n, held, seed):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return order[held:], order[:held]


def batches(x, y, size, seed):
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    for start in range(0, len(x) - size + 1, size):
        piece = order[start : start + size]
        yield x[piece], y[piece]
