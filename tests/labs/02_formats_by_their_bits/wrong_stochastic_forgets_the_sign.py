# replaces: code-stochastic
# caught by: check-stochastic
# says: -448.0 is on a rung and must stay, with its sign


def stochastic(x, form, generator):
    n, shift = ladder(x, form)
    noise = torch.randint(2**61, x.shape, generator=generator, device=x.device) % (1 << shift)
    return (n + noise) >> shift
