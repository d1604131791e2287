# replaces: code-encode
# caught by: check-encode
# says: encode(x, E4M3)
# says: expected


def encode(x, form):
    n, shift = ladder(x, form)
    last = 2 ** (form.exponent + form.mantissa) - 1
    end = last - 2**form.mantissa + 1 if form.infinities else last - 1
    return torch.where(x.isnan(), last, (n >> shift).clamp(max=end)) + (x.signbit().long() << (form.bits - 1))
