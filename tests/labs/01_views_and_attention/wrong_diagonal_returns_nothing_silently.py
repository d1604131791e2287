# replaces: code-diagonal
# caught by: check-diagonal
# says: expected: ValueError to be raised
# says: got:      float32 tensor (0,)
# says: raise ValueError


def diagonal(x, k=0):
    rows, columns = x.shape
    down, right = x.stride()
    length = max(0, min(rows, columns - k) if k >= 0 else min(rows + k, columns))
    return x.as_strided((length,), (down + right,), x.storage_offset() + (k * right if k >= 0 else -k * down))
