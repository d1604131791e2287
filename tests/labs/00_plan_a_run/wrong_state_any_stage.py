# replaces: code-state
# caught by: check-state
# says: with stage = 4
# says: ValueError to be raised


def state_bytes(parameters, gpus, stage):
    share = -(-parameters // gpus)
    held = [share if stage >= first else parameters for first in (3, 2, 1)]
    return sum(each * count for each, count in zip((2, 2, 12), held))
