# replaces: code-swap
# caught by: check-swap
# says: of 60 values differ
# says: list of the strides


def swapped(x, a, b):
    sizes = list(x.shape)
    sizes[a], sizes[b] = sizes[b], sizes[a]
    return x.as_strided(sizes, contiguous(sizes))


def contiguous(sizes):
    return [int(torch.tensor(sizes[place + 1 :]).prod()) for place in range(len(sizes))]
