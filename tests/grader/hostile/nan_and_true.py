# earns: 0
# shows: check-strides: .*got: +\(nan, nan, True\)
# shows: check-heads: .*got: +float32 tensor .* of \[nan
# %% code-strides
def contiguous_strides(shape):
    return tuple(True if n == 1 else float("nan") for n in torch.empty(shape).stride())
# %% code-heads
def split_heads(x, heads):
    return torch.full((x.shape[0], heads, x.shape[1], x.shape[2] // heads), float("nan"))
def merge_heads(x):
    return torch.full((x.shape[0], x.shape[2], x.shape[1] * x.shape[3]), float("nan"))
