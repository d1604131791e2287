# replaces: code-ladder
# caught by: check-ladder
# says: 'shift'
# says: clamp the shift to 61


def ladder(x, form):
    _, exponent, mantissa = fields(bits_of(x), FP32)
    significand = mantissa + (exponent > 0) * 2**23
    power, lowest = exponent.clamp(min=1) - 127, 1 - form.bias
    shift = 23 - form.mantissa + (lowest - power).clamp(min=0)
    return significand + ((power - lowest).clamp(min=0) << (form.mantissa + shift)), shift
