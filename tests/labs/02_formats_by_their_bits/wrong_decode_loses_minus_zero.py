# replaces: code-decode
# caught by: check-decode
# says: decode(codes, FP16).signbit()
# says: 0x8000 is -0.0


def decode(codes, form):
    sign, exponent, mantissa = fields(codes, form)
    values = magnitude(exponent, mantissa, form)
    top = exponent == 2**form.exponent - 1
    if form.infinities:
        values[top] = math.inf
        values[top & (mantissa > 0)] = math.nan
    else:
        values[top & (mantissa == 2**form.mantissa - 1)] = math.nan
    return torch.where(sign == 1, 0 - values, values)
