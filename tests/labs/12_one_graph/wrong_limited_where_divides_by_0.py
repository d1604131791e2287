# replaces: code-limited
# caught by: check-limited
# says: NaN at 0


def limited(x, limit):
    norm = x.norm()
    return torch.where(norm > limit, x * (limit / norm), x)
