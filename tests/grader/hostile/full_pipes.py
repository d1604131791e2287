# earns: 0
# shows: check-strides: .*got: +\w*Error: \[Errno \d+\]
# %% code-strides
def contiguous_strides(shape):
    import fcntl, os
    for _ in range(50):
        out, into = os.pipe()
        fcntl.fcntl(into, 1031, 1 << 20)
    return torch.empty(shape).stride()
