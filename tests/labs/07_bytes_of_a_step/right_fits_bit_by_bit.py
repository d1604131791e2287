# replaces: code-fits


def largest_batch(peak, memory):
    batch = 0
    for bit in reversed(range(31)):
        if peak(batch + 2**bit) <= memory:
            batch += 2**bit
    return batch
