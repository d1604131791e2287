# earns: 0
# shows: check-strides: .*nobody's memory
# %% code-strides
def contiguous_strides(shape):
    from multiprocessing import shared_memory
    import os
    assert os.listdir("/dev/shm"), "nobody's memory"
    return torch.empty(shape).stride()
