# replaces: code-held
# caught by: check-held
# says: which has no rows to share


def held_bytes(shapes, optimizer: str, itemsize: int = 4, trained=None) -> dict[str, int]:
    """{"parameters": bytes, "gradients": bytes, "state": bytes} after a step; ValueError for an unknown optimizer."""
    copies = {"sgd": 0, "momentum": 1, "adamw": 2, "amsgrad": 3}
    if optimizer not in copies and optimizer != "adafactor":
        raise ValueError(f"unknown optimizer {optimizer!r}: one of {', '.join(copies)}, adafactor")
    learning = [shape for shape, learns in zip(shapes, trained or [True] * len(shapes), strict=True) if learns]

    def state(shape) -> int:
        if optimizer != "adafactor":
            numbers = copies[optimizer] * math.prod(shape)
        elif len(shape) == 1:
            numbers = 1 + shape[0]
        else:
            numbers = math.prod(shape[:-1]) + math.prod(shape[:-2]) * shape[-1]
        return itemsize * numbers + (4 if optimizer not in ("sgd", "momentum") else 0)

    return {
        "parameters": itemsize * sum(map(math.prod, shapes)),
        "gradients": itemsize * sum(map(math.prod, learning)),
        "state": sum(map(state, learning)),
    }
