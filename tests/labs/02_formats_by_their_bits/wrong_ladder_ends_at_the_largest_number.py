# replaces: code-ladder
# caught by: check-ladder
# says: x = float32 tensor (5,) of [448.0, 480.0, 512.0
# says: the ladder has no end


def ladder(x, form):
    _, exponent, mantissa = fields(bits_of(x), FP32)
    significand = mantissa + (exponent > 0) * 2**23
    power, lowest = exponent.clamp(min=1) - 127, 1 - form.bias
    shift = (23 - form.mantissa + (lowest - power).clamp(min=0)).clamp(max=61)
    n = significand + ((power - lowest).clamp(min=0) << (form.mantissa + shift))
    last = 2 ** (form.exponent + form.mantissa) - 1
    return torch.where(n >> shift > last, last << shift, n), shift
