# replaces: code-limited
# caught by: check-limited
# says: the choice must be an operation


def limited(x, limit):
    norm = x.norm().item()
    return x * (limit / norm) if norm > limit else x
