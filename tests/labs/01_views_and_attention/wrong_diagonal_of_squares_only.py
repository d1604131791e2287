# replaces: code-diagonal
# caught by: check-diagonal
# says: expected shape
# says: which ends first


def diagonal(x, k=0):
    if abs(k) >= min(x.shape):
        raise ValueError(f"k={k} is too far")
    down, right = x.stride()
    start = k * right if k >= 0 else -k * down
    return x.as_strided((x.shape[0] - abs(k),), (down + right,), x.storage_offset() + start)
