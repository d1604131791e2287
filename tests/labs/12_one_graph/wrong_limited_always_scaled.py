# replaces: code-limited
# caught by: check-limited
# says: by hand: scaled to the norm 1, unchanged


def limited(x, limit):
    return x * (limit / x.norm().clamp(min=1e-6))
