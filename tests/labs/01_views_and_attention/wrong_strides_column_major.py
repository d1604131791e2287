# replaces: code-strides
# caught by: check-strides
# says: expected: (12, 4, 1)
# says: got:      (1, 2, 6)
# says: the last axis moves by 1


def contiguous_strides(shape):
    strides, step = [], 1
    for size in shape:
        strides.append(step)
        step *= size
    return tuple(strides)
