# replaces: code-encode
# caught by: check-encode
# says: nan
# says: overwrite the rung where x is NaN


def encode(x, form):
    last = 2 ** (form.exponent + form.mantissa) - 1
    end = last - 2**form.mantissa + 1 if form.infinities else last - 1
    return shift_nearest(*ladder(x, form)).clamp(max=end) + (x.signbit().long() << (form.bits - 1))
