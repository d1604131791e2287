# replaces: code-fits
# caught by: check-fits
# says: exactly at the limit still fits


def largest_batch(peak, memory: int) -> int:
    """The largest batch with peak(batch) < memory, 0 if there is none; at most 80 calls of peak, which never falls."""
    fits, fails = 0, 1
    while peak(fails) < memory:
        fits, fails = fails, 2 * fails
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if peak(middle) < memory:
            fits = middle
        else:
            fails = middle
    return fits
