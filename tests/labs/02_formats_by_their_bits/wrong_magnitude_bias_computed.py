# replaces: code-magnitude
# caught by: check-magnitude
# says: Format(4, 3, bias=
# says: the bias from form


def magnitude(exponent, mantissa, form):
    bias = 2 ** (form.exponent - 1) - 1
    fraction = mantissa.double() / 2**form.mantissa
    return ((exponent > 0) + fraction) * 2.0 ** (exponent.clamp(min=1) - bias).double()
