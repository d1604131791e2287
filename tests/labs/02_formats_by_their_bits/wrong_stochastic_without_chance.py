# replaces: code-stochastic
# caught by: check-stochastic
# says: 'same for another': True
# says: all chance comes from generator


def stochastic(x, form, generator):
    return encode(x, form)
