# replaces: code-encode
# caught by: check-encode
# says: encode(x, E5M2)
# says: first [2]: expected 123, got 124
# says: round first


def encode(x, form):
    rung = shift_nearest(*ladder(x, form))
    last = 2 ** (form.exponent + form.mantissa) - 1
    end = last - 2**form.mantissa + 1 if form.infinities else last - 1
    largest = (2 - 2.0**-form.mantissa) * 2.0 ** (2**form.exponent - 2 - form.bias) if form.infinities else 448
    rung = torch.where(x.abs() > largest, end, rung)
    return torch.where(x.isnan(), last, rung) + (x.signbit().long() << (form.bits - 1))
