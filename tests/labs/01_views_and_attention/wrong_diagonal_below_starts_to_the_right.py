# replaces: code-diagonal
# caught by: check-diagonal
# says: with k = -3
# says: where does it start


def diagonal(x, k=0):
    rows, columns = x.shape
    down, right = x.stride()
    length = min(rows, columns - k) if k >= 0 else min(rows + k, columns)
    if length < 1:
        raise ValueError(f"k={k} leaves nothing")
    return x.as_strided((length,), (down + right,), x.storage_offset() + abs(k) * right)
