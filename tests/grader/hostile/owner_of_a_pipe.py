# earns: 0
# shows: check-strides: .*got: +\w*Error: \[Errno \d+\]
# %% code-strides
def contiguous_strides(shape):
    import fcntl, os
    out, into = os.pipe()
    fcntl.fcntl(out, fcntl.F_SETOWN, os.getppid())
    fcntl.fcntl(out, fcntl.F_SETSIG, 9)
    fcntl.fcntl(out, fcntl.F_SETFL, os.O_ASYNC)
    os.write(into, b"x")
    return torch.empty(shape).stride()
