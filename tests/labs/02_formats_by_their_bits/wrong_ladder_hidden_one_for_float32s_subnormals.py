# replaces: code-ladder
# caught by: check-ladder
# says: got 3.63798e-12
# says: 0 has no hidden 1


def ladder(x, form):
    _, exponent, mantissa = fields(bits_of(x), FP32)
    power, lowest = exponent.clamp(min=1) - 127, 1 - form.bias
    shift = (23 - form.mantissa + (lowest - power).clamp(min=0)).clamp(max=61)
    return mantissa + 2**23 + ((power - lowest).clamp(min=0) << (form.mantissa + shift)), shift
