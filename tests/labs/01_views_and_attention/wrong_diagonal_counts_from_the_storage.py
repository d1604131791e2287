# replaces: code-diagonal
# caught by: check-diagonal
# says: diagonal(x[1:, 2:].T, 1)
# says: x.storage_offset()


def diagonal(x, k=0):
    rows, columns = x.shape
    down, right = x.stride()
    length = min(rows, columns - k) if k >= 0 else min(rows + k, columns)
    if length < 1:
        raise ValueError(f"k={k} leaves nothing")
    return x.as_strided((length,), (down + right,), k * right if k >= 0 else -k * down)
