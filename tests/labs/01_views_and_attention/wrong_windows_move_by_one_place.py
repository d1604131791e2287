# replaces: code-windows
# caught by: check-windows
# says: windows(x[:, 1:, ::2], 3)
# says: its last stride is x.stride(-1)


def windows(x, size, step=1):
    length = x.shape[-1]
    if not 1 <= size <= length or step < 1:
        raise ValueError(f"size={size}, step={step}")
    count = (length - size) // step + 1
    return x.as_strided((*x.shape[:-1], count, size), (*x.stride()[:-1], step, 1))
