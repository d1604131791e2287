# replaces: code-ladder
# caught by: check-ladder
# says: 13.5 + 8 · 8


def ladder(x, form):
    _, exponent, mantissa = fields(bits_of(x), FP32)
    significand = mantissa + (exponent > 0) * 2**23
    power = exponent.clamp(min=1) - 127
    return significand, (23 - form.mantissa + (1 - form.bias - power).clamp(min=0)).clamp(max=61)
