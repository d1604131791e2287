# replaces: code-shift
# caught by: check-shift
# says: expected 2, got 3
# says: to the even neighbour


def shift_nearest(n, shift):
    return (n + ((1 << shift) >> 1)) >> shift
