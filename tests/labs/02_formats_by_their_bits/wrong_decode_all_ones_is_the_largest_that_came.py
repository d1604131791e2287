# replaces: code-decode
# caught by: check-decode
# says: expected 448.0, got nan
# says: not at the other codes


def decode(codes, form):
    sign, exponent, mantissa = fields(codes, form)
    values = magnitude(exponent, mantissa, form)
    top = exponent == 2**form.exponent - 1
    if form.infinities:
        values[top] = math.inf
        values[top & (mantissa != 0)] = math.nan
    else:
        values[top & (mantissa == mantissa.max())] = math.nan
    return values * (-1) ** sign
