# replaces: code-shift


def shift_nearest(n, shift):
    from fractions import Fraction

    pairs = zip(n.flatten().tolist(), shift.flatten().tolist())
    rounded = [round(Fraction(number, 2**places)) for number, places in pairs]
    return torch.tensor(rounded, dtype=torch.int64, device=n.device).view(n.shape)
