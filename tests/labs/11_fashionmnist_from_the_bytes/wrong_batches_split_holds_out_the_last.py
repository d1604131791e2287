# replaces: code-batches
# caught by: check-batches
# says: hold out by lot


def split(n, held, seed):
    return torch.arange(n - held), torch.arange(n - held, n)


def batches(x, y, size, seed):
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    for start in range(0, len(x), size):
        piece = order[start : start + size]
        yield x[piece], y[piece]
