# replaces: code-magnitude
# caught by: check-magnitude
# says: first [0]: expected 0.0, got 0.125
# says: no hidden 1


def magnitude(exponent, mantissa, form):
    return (1 + mantissa.double() / 2**form.mantissa) * 2.0 ** (exponent - form.bias).double()
