# earns: 0
# shows: check-strides: .*got: +\w*Error: \[Errno \d+\]
# %% code-strides
def contiguous_strides(shape):
    import os
    handle = os.open(torch.__file__, os.O_RDONLY)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.preadv(handle, [bytearray(1)], 0, os.RWF_NOWAIT)
    return torch.empty(shape).stride()
