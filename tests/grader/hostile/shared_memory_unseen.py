# earns: 0
# shows: check-strides: .*got: +\w*Error: \[Errno \d+\]
# %% code-strides
def contiguous_strides(shape):
    import mmap
    hoard = mmap.mmap(-1, 96 << 20)
    hoard.write(b"x" * (96 << 20))
    hoard.madvise(mmap.MADV_DONTNEED)
    return torch.empty(shape).stride()
