# replaces: code-limited
# caught by: check-limited
# says: the norm of all numbers


def limited(x, limit):
    return x * (limit / (x.norm() + 1e-6)).clamp(max=1)
