# replaces: code-state
# caught by: check-state
# says: with stage = 1
# says: expected: 76
# says: got:      104


def state_bytes(parameters, gpus, stage):
    if stage not in range(4):
        raise ValueError(f"stage={stage}")
    share = -(-parameters // gpus)
    held = [share if stage >= first else parameters for first in (3, 2, 1)]
    return sum(each * count for each, count in zip((4, 4, 8), held))
