# replaces: code-plan
# caught by: check-plan
# says: but not into the width of 7


def plan(layers, shape):
    result = []
    for i, (kind, *n) in enumerate(layers):
        p = m = 0
        if kind == "conv":
            if len(shape) != 3:
                raise ValueError(f"layer {i} needs (C, H, W)")
            c, h, w = shape
            h, w = h + 2 * n[3], w + 2 * n[3]
            if n[1] > h:
                raise ValueError(f"layer {i} does not fit")
            h, w = (h - n[1]) // n[2] + 1, (w - n[1]) // n[2] + 1
            p = n[0] * (c * n[1] * n[1] + 1)
            m = h * w * n[0] * c * n[1] * n[1]
            shape = (n[0], h, w)
        elif kind == "pool":
            if len(shape) != 3 or n[0] > min(shape[1:]):
                raise ValueError(f"layer {i} does not fit {shape}")
            shape = (shape[0], shape[1] // n[0], shape[2] // n[0])
        elif kind == "flatten":
            shape = (math.prod(shape),)
        elif kind == "linear":
            if len(shape) != 1:
                raise ValueError(f"layer {i} needs (n,)")
            p, m, shape = (shape[0] + 1) * n[0], shape[0] * n[0], (n[0],)
        elif kind not in ("relu", "dropout"):
            raise ValueError(f"layer {i}: {kind}?")
        result.append((shape, p, m))
    return result
