# replaces: code-decode
# caught by: check-decode
# says: decode(codes, E5M2)
# says: expected -inf, got inf


def decode(codes, form):
    sign, exponent, mantissa = fields(codes, form)
    values = magnitude(exponent, mantissa, form) * (1 - 2 * sign)
    top, last = exponent == 2**form.exponent - 1, 2**form.mantissa - 1
    if form.infinities:
        values[top] = torch.where(mantissa[top] == 0, math.inf, math.nan).double()
    else:
        values[top & (mantissa == last)] = math.nan
    return values
