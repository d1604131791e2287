# replaces: code-shift
# caught by: check-shift
# says: expected 3, got 2
# says: to the nearest


def shift_nearest(n, shift):
    return n >> shift
