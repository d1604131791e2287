# replaces: code-stochastic
# caught by: check-stochastic
# says: 'same for another': True
# says: some must


def stochastic(x, form, generator):
    return encode(x, form)
