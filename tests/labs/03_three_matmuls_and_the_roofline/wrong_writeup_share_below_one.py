# replaces: code-writeup
# caught by: check-writeup
# says: their quotient, above 1


def write_up(flops, nbytes, seconds, peak, bandwidth):
    least = {name: max(flops / peak, nbytes[name] / bandwidth) for name in seconds}
    fast, slow = min(seconds, key=seconds.get), max(seconds, key=seconds.get)
    low = max(nbytes, key=nbytes.get)
    far = max(seconds, key=lambda name: seconds[name] / least[name])
    limit = "memory" if nbytes[low] / bandwidth > flops / peak else "arithmetic"
    return [
        f"{fast} takes {seconds[fast] / seconds[slow]:.3g} of the time of {slow}.",
        f"{low} has {flops / nbytes[low]:.3g} FLOPs a byte and is bound by {limit}.",
        f"{far} takes {seconds[far] / least[far]:.3g} times its least time.",
    ]
