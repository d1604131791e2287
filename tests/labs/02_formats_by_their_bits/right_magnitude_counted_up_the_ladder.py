# replaces: code-magnitude


def magnitude(exponent, mantissa, form):
    steps = torch.exp2((exponent.clamp(min=1) - form.bias - form.mantissa).double())
    return torch.where(exponent == 0, mantissa, mantissa + 2**form.mantissa) * steps
