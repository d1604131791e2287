# replaces: code-shift
# caught by: check-shift
# says: a shift of 0 drops no bit


def shift_nearest(n, shift):
    kept = n >> shift
    half = 1 << (shift - 1).clamp(min=0)
    return (n + half - 1 + kept % 2) >> shift
