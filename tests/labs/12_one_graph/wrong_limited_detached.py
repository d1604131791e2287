# replaces: code-limited
# caught by: check-limited
# says: so do not detach it


def limited(x: Tensor, limit: float) -> Tensor:
    """x, scaled down to the norm `limit` (above 0) if its norm is larger: a tensor of the shape of x."""
    return x * (limit / x.detach().norm().clamp(min=limit))
