# replaces: code-stochastic
# caught by: check-stochastic
# says: codes 16256 and 16257
# says: added to n before the cut


def stochastic(x, form, generator):
    size = x.double().abs()
    step = decode(encode(x, form) % 2 ** (form.bits - 1) + 1, form) - decode(encode(x, form), form).abs()
    jitter = torch.rand(x.shape, generator=generator, device=x.device, dtype=torch.float64) - 0.5
    exact = decode(encode(x, form), form) == x.double()
    moved = torch.where(exact, x, torch.copysign(size + jitter * step, x.double()).float())
    return encode(moved, form)
