# replaces: code-ladder
# caught by: check-ladder
# says: first [0]: expected 77.5, got 69.5
# says: 13.5 + 8 · 8


def ladder(x, form):
    _, exponent, mantissa = fields(bits_of(x), FP32)
    power, lowest = exponent.clamp(min=1) - 127, 1 - form.bias
    shift = (23 - form.mantissa + (lowest - power).clamp(min=0)).clamp(max=61)
    return mantissa + ((power - lowest).clamp(min=0) << (form.mantissa + shift)), shift
