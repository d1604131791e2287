# replaces: code-windows


def windows(x, size, step=1):
    if size < 1 or step < 1:
        raise ValueError(f"size {size} and step {step} are at least 1")
    starts = range(0, x.shape[-1] - size + 1, step)
    if not starts:
        raise ValueError(f"windows of {size} do not fit into {x.shape[-1]}")
    *before, last = x.stride()
    return x.as_strided([*x.shape[:-1], len(starts), size], [*before, last * step, last])
