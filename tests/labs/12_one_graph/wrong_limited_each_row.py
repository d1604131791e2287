# replaces: code-limited
# caught by: check-limited
# says: the norm of all numbers of x together


def limited(x: Tensor, limit: float) -> Tensor:
    """x, scaled down to the norm `limit` (above 0) if its norm is larger: a tensor of the shape of x."""
    return x * (limit / x.norm(dim=-1, keepdim=True).clamp(min=limit))
