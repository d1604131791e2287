# replaces: code-limited
# caught by: check-limited
# says: by hand: scaled to the norm 1


def limited(x, limit):
    return x.clamp(-limit, limit)
