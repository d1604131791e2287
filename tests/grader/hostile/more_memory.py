# earns: 0
# shows: check-strides: .*got: +\(\)
# %% code-strides
def contiguous_strides(shape):
    import mmap
    try:
        mmap.mmap(-1, 3 << 30)  # asked for, never touched
    except OSError:
        return ()
    return torch.empty(shape).stride()
