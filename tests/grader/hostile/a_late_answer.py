# earns: 0
# shows: check-strides: .*took too long
# %% code-strides
def contiguous_strides(shape):
    import time
    time.sleep(40)
    return torch.empty(shape).stride()
