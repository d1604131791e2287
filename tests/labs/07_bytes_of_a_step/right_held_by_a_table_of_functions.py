# replaces: code-held


NUMBERS = {
    "sgd": (lambda s: 0, 0),
    "momentum": (np.prod, 0),
    "adamw": (lambda s: 2 * np.prod(s), 4),
    "amsgrad": (lambda s: 3 * np.prod(s), 4),
    "adafactor": (lambda s: s[0] if len(s) == 1 else np.prod(s) // s[-1] + np.prod(s) // s[-2], 4),
}


def held_bytes(shapes, optimizer, itemsize=4, trained=None):
    if optimizer not in NUMBERS:
        raise ValueError(optimizer)
    numbers, count = NUMBERS[optimizer]
    total = {"parameters": 0, "gradients": 0, "state": 0}
    for i, shape in enumerate(shapes):
        total["parameters"] += itemsize * np.prod(shape)
        if trained is None or trained[i]:
            total["gradients"] += itemsize * np.prod(shape)
            total["state"] += itemsize * numbers(shape) + count
    return total
