# replaces: code-magnitude
# caught by: check-magnitude
# says: got torch.float32
# says: in float64


def magnitude(exponent, mantissa, form):
    return ((exponent > 0) + mantissa / 2**form.mantissa) * 2.0 ** (exponent.clamp(min=1) - form.bias)
