# replaces: code-stochastic
# caught by: check-stochastic
# says: 'global generator untouched': False
# says: a draw for each element


def stochastic(x, form, generator):
    n, shift = ladder(x, form)
    noise = torch.randint(2**61, x.shape, device=x.device) % (1 << shift)
    return ((n + noise) >> shift) + (x.signbit().long() << (form.bits - 1))
