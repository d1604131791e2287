# replaces: code-step


def sgd_step(codes, gradient, lr, form, generator=None):
    store = encode if generator is None else lambda x, form: stochastic(x, form, generator)
    return store((decode(codes, form) - lr * gradient.double()).float(), form)
