# replaces: code-shift
# caught by: check-shift
# says: expected 1, got 2
# says: compare 2 · rest with 2^shift


def shift_nearest(n, shift):
    kept, rest = n >> shift, n & ((1 << shift) - 1)
    half = 1 << (shift - 1)
    return kept + ((rest > half) | ((rest == half) & (kept & 1 == 1)))
