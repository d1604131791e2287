# replaces: code-fits
# caught by: check-fits
# says: double first


def largest_batch(peak, memory):
    batch = 0
    while batch < 2_000 and peak(batch + 1) <= memory:
        batch += 1
    if batch == 2_000:
        low, high = 1, 2**31
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if peak(middle) <= memory else (low, middle)
        return low
    return batch
