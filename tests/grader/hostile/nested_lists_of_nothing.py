# earns: 0
# %% code-strides
def contiguous_strides(shape):
    return [[] for _ in range(5_000_000)]
