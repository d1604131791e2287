# replaces: code-batches
# caught by: check-batches
# says: cut one torch.randperm(n) in two


def split(n, held, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(n, generator=generator)[held:], torch.randperm(n, generator=generator)[:held]


def batches(x, y, size, seed):
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    for start in range(0, len(x), size):
        piece = order[start : start + size]
        yield x[piece], y[piece]
