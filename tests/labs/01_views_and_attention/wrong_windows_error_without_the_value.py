# replaces: code-windows
# caught by: check-windows
# says: expected: ValueError that names '11'
# says: got:      ValueError: no window fits


def windows(x, size, step=1):
    length, along = x.shape[-1], x.stride(-1)
    if not 1 <= size <= length or step < 1:
        raise ValueError("no window fits")
    count = (length - size) // step + 1
    return x.as_strided((*x.shape[:-1], count, size), (*x.stride()[:-1], step * along, along))
