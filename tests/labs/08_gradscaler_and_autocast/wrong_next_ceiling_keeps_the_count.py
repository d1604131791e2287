# replaces: code-next
# caught by: check-next
# says: 2¹²⁷


def next_scale(scale: float, good: int, overflow: bool, growth: float, backoff: float, interval: int) -> tuple[float, int]:
    if overflow:
        return (scale * backoff, 0)
    if good + 1 < interval:
        return (scale, good + 1)
    grown = scale * growth
    return (grown, 0) if grown <= 2.0**127 else (scale, good)
