# replaces: code-stochastic
# caught by: check-stochastic
# says: Format(8, 22, bias=127)
# says: from 0 to 2^shift - 1


def stochastic(x, form, generator):
    n, shift = ladder(x, form)
    noise = torch.randint(2**61, x.shape, generator=generator, device=x.device) % ((1 << shift) - 1)
    return ((n + noise) >> shift) + (x.signbit().long() << (form.bits - 1))
