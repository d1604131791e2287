# replaces: code-strides
# caught by: check-strides
# says: expected: (12, 4, 1)
# says: got:      (48, 16, 4)


def contiguous_strides(shape):
    strides, step = [], 4
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)
