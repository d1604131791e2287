# replaces: code-windows
# caught by: check-windows
# says: expected shape (8, 3), got (7, 3)
# says: (L - size) // step + 1


def windows(x, size, step=1):
    length, along = x.shape[-1], x.stride(-1)
    if not 1 <= size <= length or step < 1:
        raise ValueError(f"size={size}, step={step}")
    count = (length - size) // step
    return x.as_strided((*x.shape[:-1], count, size), (*x.stride()[:-1], step * along, along))
