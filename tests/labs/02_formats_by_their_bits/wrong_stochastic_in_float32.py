# replaces: code-stochastic
# caught by: check-stochastic
# says: 1.0 is on a rung and must stay
# says: whole noise


def stochastic(x, form, generator):
    n, shift = ladder(x, form)
    chance = torch.rand(x.shape, generator=generator, device=x.device)
    return torch.floor(n / 2**shift + chance).long() + (x.signbit().long() << (form.bits - 1))
