# replaces: code-next
# caught by: check-next
# says: it does not go up to the ceiling


def next_scale(
    scale: float, good: int, overflow: bool, growth: float, backoff: float, interval: int
) -> tuple[float, int]:
    if overflow:
        return scale * backoff, 0
    if good + 1 < interval:
        return scale, good + 1
    return min(scale * growth, 2.0**127), 0
