# replaces: code-stochastic


def stochastic(x, form, generator):
    n, shift = ladder(x, form)
    below = n >> shift
    share = (n - (below << shift)).double() / 2.0 ** shift.double()
    up = torch.rand(x.shape, generator=generator, dtype=torch.float64, device=x.device) < share
    return below + up + (x.signbit().long() << (form.bits - 1))
