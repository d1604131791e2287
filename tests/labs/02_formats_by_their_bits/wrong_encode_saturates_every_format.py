# replaces: code-encode
# caught by: check-encode
# says: encode(x, E5M2)
# says: to infinity's code


def encode(x, form):
    rung = shift_nearest(*ladder(x, form))
    last = 2 ** (form.exponent + form.mantissa) - 1
    end = last - 2**form.mantissa if form.infinities else last - 1
    return torch.where(x.isnan(), last, rung.clamp(max=end)) + (x.signbit().long() << (form.bits - 1))
