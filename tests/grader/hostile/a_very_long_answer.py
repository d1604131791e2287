# earns: 0
# shows: check-strides: .*ValueError: .* values
# shows: check-swap: .*no answer|check-swap: .*allocate memory
# shows: check-diagonal: .*ValueError: .* bytes
# %% code-strides
def contiguous_strides(shape):
    return tuple(range(10_000_000))
# %% code-swap
def swapped(x, a, b):
    return torch.zeros(1 << 28)
# %% code-diagonal
def diagonal(x, k=0):
    return "x" * (1 << 28)
