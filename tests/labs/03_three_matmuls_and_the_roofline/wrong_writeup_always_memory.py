# replaces: code-writeup
# caught by: check-writeup
# says: it is not always memory


def write_up(flops, nbytes, seconds, peak, bandwidth):
    least = {name: max(flops / peak, nbytes[name] / bandwidth) for name in seconds}
    fast, slow = min(seconds, key=seconds.get), max(seconds, key=seconds.get)
    low = max(nbytes, key=nbytes.get)
    far = max(seconds, key=lambda name: seconds[name] / least[name])
    limit = "memory"
    return [
        f"{slow} takes {seconds[slow] / seconds[fast]:.3g} times as long as {fast}.",
        f"{low} has {flops / nbytes[low]:.3g} FLOPs a byte and is bound by {limit}.",
        f"{far} takes {seconds[far] / least[far]:.3g} times its least time.",
    ]
