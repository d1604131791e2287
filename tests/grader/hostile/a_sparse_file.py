# earns: 0
# shows: check-strides: .*got: +\w*Error: \[Errno \d+\]
# %% code-strides
def contiguous_strides(shape):
    with open("sparse", "wb") as file:
        file.truncate(1 << 40)
    return torch.empty(shape).stride()
