# replaces: code-ladder
# caught by: check-ladder
# says: first [1]: expected 77.0
# says: 13.5 + 8 · 8


def ladder(x, form):
    bits = bits_of(x)
    exponent, mantissa = bits >> 23, bits % 2**23
    significand = mantissa + (exponent > 0) * 2**23
    power, lowest = exponent.clamp(min=1) - 127, 1 - form.bias
    shift = (23 - form.mantissa + (lowest - power).clamp(min=0)).clamp(max=61)
    return significand + ((power - lowest).clamp(min=0) << (form.mantissa + shift)), shift
