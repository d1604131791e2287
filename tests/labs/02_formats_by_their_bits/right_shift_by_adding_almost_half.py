# replaces: code-shift


def shift_nearest(n, shift):
    almost_half = ((1 << shift) >> 1) - 1
    return torch.where(shift == 0, n, (n + almost_half + ((n >> shift) & 1)) >> shift)
