# replaces: code-ladder


def ladder(x, form):
    fraction, power = torch.frexp(x.double().abs())
    significand, power = (fraction * 2.0**24).long(), power.long() - 1
    lowest = 1 - form.bias
    shift = torch.where(significand == 0, 23 - form.mantissa, 23 - form.mantissa + (lowest - power).clamp(min=0))
    shift = shift.clamp(max=61)
    below = torch.where(significand == 0, 0, (power - lowest).clamp(min=0))
    return significand + (below << (form.mantissa + shift)), shift
