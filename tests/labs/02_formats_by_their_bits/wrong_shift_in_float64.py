# replaces: code-shift
# caught by: check-shift
# says: values differ
# says: stay in int64


def shift_nearest(n, shift):
    return torch.round(n.double() / 2.0 ** shift.double()).long()
