# replaces: code-windows
# caught by: check-windows
# says: got:      RuntimeError: setStorage
# says: room for a whole window


def windows(x, size, step=1):
    length, along = x.shape[-1], x.stride(-1)
    if not 1 <= size <= length or step < 1:
        raise ValueError(f"size={size}, step={step}")
    count = length - size + 1 if step == 1 else -(-length // step)
    return x.as_strided((*x.shape[:-1], count, size), (*x.stride()[:-1], step * along, along))
