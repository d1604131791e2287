# replaces: code-stochastic
# caught by: check-stochastic
# says: codes 16256 and 16257
# says: from 0 to 2^shift - 1


def stochastic(x, form, generator):
    n, shift = ladder(x, form)
    held = (n >> shift) << shift == n
    coin = torch.randint(2, x.shape, generator=generator, device=x.device)
    return (n >> shift) + torch.where(held, 0, coin) + (x.signbit().long() << (form.bits - 1))
