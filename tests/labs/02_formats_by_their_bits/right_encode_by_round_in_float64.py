# replaces: code-encode


def encode(x, form):
    n, shift = ladder(x, form)
    rung = torch.round(n.double() * 2.0 ** -shift.double()).long()
    infinity = (2**form.exponent - 1) << form.mantissa
    nan = infinity + 2**form.mantissa - 1
    rung = torch.minimum(rung, torch.full_like(rung, infinity if form.infinities else nan - 1))
    rung[x.isnan()] = nan
    return rung | torch.where(torch.signbit(x), 1 << (form.bits - 1), 0)
