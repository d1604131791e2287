# replaces: code-decode
# caught by: check-decode
# says: decode(codes, E4M3)
# says: first [120]: expected 256.0, got inf
# says: holds numbers, up to 448


def decode(codes, form):
    sign, exponent, mantissa = fields(codes, form)
    top = exponent == 2**form.exponent - 1
    values = torch.where(top, math.inf, magnitude(exponent, mantissa, form))
    return torch.where(top & (mantissa > 0), math.nan, values) * (1 - 2 * sign)
