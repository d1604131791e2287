# replaces: code-batches
# caught by: check-batches
# says: is global


def split(n, held, seed):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return order[held:], order[:held]


def batches(x, y, size, seed):
    torch.manual_seed(seed)
    order = torch.randperm(len(x))
    for start in range(0, len(x), size):
        piece = order[start : start + size]
        yield x[piece], y[piece]
