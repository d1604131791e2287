# replaces: code-magnitude
# caught by: check-magnitude
# says: got inf
# says: all in float64


def magnitude(exponent, mantissa, form):
    power = 2.0 ** (exponent.clamp(min=1) - form.bias)
    return ((exponent > 0) + mantissa.double() / 2**form.mantissa) * power
