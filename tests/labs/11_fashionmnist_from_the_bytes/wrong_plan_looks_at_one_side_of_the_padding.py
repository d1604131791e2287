# replaces: code-plan
# caught by: check-plan
# says: both sides: 1 + 2 · 2


def plan(layers: list[tuple], shape: tuple[int, ...]) -> list[tuple[tuple[int, ...], int, int]]:
    """For each layer: the shape that comes out of it for one input of `shape`, its parameters, its multiply-adds.

    ValueError, naming `layer 0` and so on, for an unknown kind, unsuitable axes, a window that does not fit.
    """
    counted = []
    for place, (kind, *numbers) in enumerate(layers):
        parameters = multiply_adds = 0
        if kind in ("conv", "pool", "linear") and len(shape) != (1 if kind == "linear" else 3):
            raise ValueError(f"layer {place}, {kind}, cannot take {shape}")
        if kind == "conv":
            channels, kernel, stride, padding = numbers
            free = [side + 2 * padding - kernel for side in shape[1:]]
            if kernel > min(shape[1:]) + padding:
                raise ValueError(f"layer {place}: a kernel of {kernel} does not fit into {shape}, padding {padding}")
            weights = channels * kernel**2 * shape[0]
            shape = (channels, *(room // stride + 1 for room in free))
            parameters, multiply_adds = weights + channels, weights * shape[1] * shape[2]
        elif kind == "pool":
            (size,) = numbers
            if size > min(shape[1:]):
                raise ValueError(f"layer {place}: a window of {size} does not fit into {shape}")
            shape = (shape[0], shape[1] // size, shape[2] // size)
        elif kind == "flatten":
            shape = (math.prod(shape),)
        elif kind == "linear":
            multiply_adds = shape[0] * numbers[0]
            shape = (numbers[0],)
            parameters = multiply_adds + shape[0]
        elif kind not in ("relu", "dropout"):
            raise ValueError(f"layer {place} is of an unknown kind, {kind!r}")
        counted.append((shape, parameters, multiply_adds))
    return counted
