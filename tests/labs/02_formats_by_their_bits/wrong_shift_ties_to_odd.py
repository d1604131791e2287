# replaces: code-shift
# caught by: check-shift
# says: expected 2, got 3
# says: to the even neighbour


def shift_nearest(n, shift):
    kept = n >> shift
    rest, whole = n - (kept << shift), 1 << shift
    return kept + ((2 * rest > whole) | ((2 * rest == whole) & (kept % 2 == 0))).long()
