# replaces: code-state


def state_bytes(parameters, gpus, stage):
    share = math_ceil(parameters, gpus)
    try:
        whole = {0: 16, 1: 4, 2: 2, 3: 0}[stage]
    except KeyError:
        raise ValueError(f"there is no stage {stage}") from None
    return whole * parameters + (16 - whole) * share


def math_ceil(a, b):
    return (a + b - 1) // b
