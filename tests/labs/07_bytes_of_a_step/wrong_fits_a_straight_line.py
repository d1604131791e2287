# replaces: code-fits
# caught by: check-fits
# says: is flat here


def largest_batch(peak, memory):
    first, second = peak(1), peak(2)
    if second == first:
        return 1 if first <= memory else 0
    return max(0, 1 + (memory - first) // (second - first))
