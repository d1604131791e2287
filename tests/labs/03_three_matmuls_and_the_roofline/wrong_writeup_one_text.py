# replaces: code-writeup
# caught by: check-writeup
# says: return [speed, roof, gap]


def write_up(flops, nbytes, seconds, peak, bandwidth):
    slow, fast = max(seconds, key=seconds.get), min(seconds, key=seconds.get)
    return f"{slow} takes {seconds[slow] / seconds[fast]:.3g} times as long as {fast}."
