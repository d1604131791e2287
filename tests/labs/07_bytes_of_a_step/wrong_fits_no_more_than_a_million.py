# replaces: code-fits
# caught by: check-fits
# says: the largest that fits


def largest_batch(peak, memory):
    low, high = 0, 1_000_000
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if peak(middle) <= memory else (low, middle)
    return low
