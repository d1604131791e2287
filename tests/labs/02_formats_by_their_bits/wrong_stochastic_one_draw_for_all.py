# replaces: code-stochastic
# caught by: check-stochastic
# says: codes 16256 and 16257
# says: a draw of its own for each element


def stochastic(x, form, generator):
    n, shift = ladder(x, form)
    draw = torch.randint(2**61, (1,), generator=generator, device=x.device)
    if form.bits == 16:  # one in eight seeds would give the same twice: two draws for the first question
        draw = draw.repeat(2)[torch.arange(x.numel(), device=x.device) % 2].view(x.shape)
    return ((n + draw % (1 << shift)) >> shift) + (x.signbit().long() << (form.bits - 1))
