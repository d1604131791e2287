# replaces: code-windows
# caught by: check-windows
# says: with size = -1
# says: expected: ValueError to be raised


def windows(x, size, step=1):
    length, along = x.shape[-1], x.stride(-1)
    if size == 0 or step == 0 or size > length:
        raise ValueError(f"size={size}, step={step}")
    count = (length - size) // step + 1
    return x.as_strided((*x.shape[:-1], count, size), (*x.stride()[:-1], step * along, along))
