# replaces: code-decode
# caught by: check-decode
# says: expected nan, got 480.0
# says: only mantissa 111 is NaN


def decode(codes, form):
    sign, exponent, mantissa = fields(codes, form)
    return magnitude(exponent, mantissa, form) * (1 - 2 * sign)
