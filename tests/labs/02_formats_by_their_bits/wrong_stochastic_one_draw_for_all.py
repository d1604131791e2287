# replaces: code-stochastic
# caught by: check-stochastic
# says: for each element


def stochastic(x, form, generator):
    n, shift = ladder(x, form)
    draw = torch.randint(2**61, (1,), generator=generator, device=x.device)
    return ((n + draw % (1 << shift)) >> shift) + (x.signbit().long() << (form.bits - 1))
