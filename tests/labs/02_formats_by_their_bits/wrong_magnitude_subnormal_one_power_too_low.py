# replaces: code-magnitude
# caught by: check-magnitude
# says: expected 0.0625, got 0.03125
# says: the power of E = 1


def magnitude(exponent, mantissa, form):
    fraction = mantissa.double() / 2**form.mantissa
    return ((exponent > 0) + fraction) * 2.0 ** (exponent - form.bias).double()
