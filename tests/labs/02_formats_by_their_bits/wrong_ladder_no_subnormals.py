# replaces: code-ladder
# caught by: check-ladder
# says: ladder(x, E4M3)
# says: 2^-10 is subnormal here


def ladder(x, form):
    _, exponent, mantissa = fields(bits_of(x), FP32)
    shift = torch.full_like(exponent, 23 - form.mantissa)
    significand = mantissa + 2**23
    return significand + ((exponent - 127 - 1 + form.bias) << 23), shift
