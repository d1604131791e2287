# replaces: code-swap
# caught by: check-swap
# says: swapped(x[1:, ::2], 0, 2)
# says: take the strides from x.stride()


def swapped(x, a, b):
    sizes, strides = list(x.shape), list(contiguous_strides(tuple(x.shape)))
    sizes[a], sizes[b] = sizes[b], sizes[a]
    strides[a], strides[b] = strides[b], strides[a]
    return x.as_strided(sizes, strides)
