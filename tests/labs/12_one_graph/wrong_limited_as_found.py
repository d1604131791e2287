# replaces: code-limited
# caught by: check-limited
# says: the choice must be an operation


def limited(x, limit):
    norm = x.norm()
    if norm > limit:
        x = x * (limit / norm)
    return x
