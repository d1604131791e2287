# replaces: code-decode
# caught by: check-decode
# says: decode(codes, E5M2)
# says: NaN elsewhere


def decode(codes, form):
    sign, exponent, mantissa = fields(codes, form)
    values = magnitude(exponent, mantissa, form)
    top, last = exponent == 2**form.exponent - 1, 2**form.mantissa - 1
    if form.infinities:
        values = torch.where(top, math.inf, values)
    return torch.where(top & (mantissa == last), math.nan, values) * (1 - 2 * sign)
