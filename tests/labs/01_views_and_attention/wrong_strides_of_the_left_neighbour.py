# replaces: code-strides
# caught by: check-strides
# says: with shape = (2, 3, 4)
# says: got:      (24, 12, 4)


def contiguous_strides(shape):
    strides, step = [], 1
    for size in reversed(shape):
        step *= size
        strides.append(step)
    return tuple(reversed(strides))
