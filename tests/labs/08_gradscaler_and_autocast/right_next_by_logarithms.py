# replaces: code-next


def next_scale(scale, good, overflow, growth, backoff, interval):
    factor = 1.0
    good = 0 if overflow else good + 1
    if overflow:
        factor = backoff
    elif good >= interval:
        good, factor = 0, growth
    if factor > 1 and math.log2(scale) + math.log2(factor) > 127:
        factor = 1.0
    return [scale * factor, good]
