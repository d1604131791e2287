# replaces: code-diagonal


def diagonal(x, k=0):
    row, column, length = max(-k, 0), max(k, 0), 0
    start = x.storage_offset() + row * x.stride(0) + column * x.stride(1)
    while row + length < x.shape[0] and column + length < x.shape[1]:
        length += 1
    if not length:
        raise ValueError(f"no element with k = {k}")
    return x.as_strided([length], [sum(x.stride())], start)
