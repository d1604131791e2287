# earns: 0
# shows: check-strides: .*ValueError: .* values
# %% code-strides
def contiguous_strides(shape):
    return [[] for _ in range(5_000_000)]
