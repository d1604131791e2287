# replaces: code-stochastic
# caught by: check-stochastic
# says: is on a rung and must stay
# says: then the cut


def stochastic(x, form, generator):
    n, shift = ladder(x, form)
    noise = torch.randint(2**61, x.shape, generator=generator, device=x.device) % (1 << shift)
    return shift_nearest(n + noise, shift) + (x.signbit().long() << (form.bits - 1))
