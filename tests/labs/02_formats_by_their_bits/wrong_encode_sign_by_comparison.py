# replaces: code-encode
# caught by: check-encode
# says: encode(x, E4M3)
# says: first [11]: expected 128, got 0
# says: torch.signbit


def encode(x, form):
    rung = shift_nearest(*ladder(x, form))
    last = 2 ** (form.exponent + form.mantissa) - 1
    end = last - 2**form.mantissa + 1 if form.infinities else last - 1
    code = torch.where(x.isnan(), last, rung.clamp(max=end))
    return code + (code > 0) * (x < 0) * 2 ** (form.bits - 1)
