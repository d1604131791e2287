# replaces: code-fields


def fields(codes, form):
    rest, mantissa = codes // 2**form.mantissa, codes & ~(-1 << form.mantissa)
    return rest.div(2**form.exponent, rounding_mode="floor"), rest.remainder(2**form.exponent), mantissa
