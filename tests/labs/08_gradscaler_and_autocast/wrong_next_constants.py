# replaces: code-next
# caught by: check-next
# says: torch's scaler goes elsewhere


def next_scale(scale: float, good: int, overflow: bool, growth: float, backoff: float, interval: int) -> tuple[float, int]:
    if overflow:
        return (scale * 0.5, 0)
    if good + 1 < interval:
        return (scale, good + 1)
    grown = scale * 2.0
    return (grown if grown <= 2.0**127 else scale, 0)
