# replaces: code-window


def largest_scale(gradients):
    entries = [abs(value) if value == value else value for g in gradients for value in g.flatten().tolist()]
    for value in (entry for g in gradients for entry in g.flatten().tolist()):
        if not math.isfinite(value):
            raise ValueError(str(value))
    mantissa, exponent = math.frexp(max(entries, default=0.0))
    if mantissa == 0:
        raise ValueError("only zeros (or nothing): zero has no largest scale")
    return math.ldexp(1.0, 16 - exponent if mantissa < 65520 / 65536 else 15 - exponent)
