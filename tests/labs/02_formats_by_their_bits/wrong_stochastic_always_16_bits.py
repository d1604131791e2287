# replaces: code-stochastic
# caught by: check-stochastic
# says: stochastic(x, FP16
# says: codes 32773 and 32774


def stochastic(x, form, generator):
    n, shift = ladder(x, form)
    noise = torch.randint(2**16, x.shape, generator=generator, device=x.device)
    return ((n + noise) >> shift) + (x.signbit().long() << (form.bits - 1))
