# replaces: code-next
# caught by: check-next
# says: growth and overflow both set good to 0


def next_scale(scale: float, good: int, overflow: bool, growth: float, backoff: float, interval: int) -> tuple[float, int]:
    if overflow:
        return (scale * backoff, good)
    if good + 1 < interval:
        return (scale, good + 1)
    grown = scale * growth
    return (grown if grown <= 2.0**127 else scale, 0)
