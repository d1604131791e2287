# replaces: code-step
# caught by: check-step
# says: about 0.9
# says: subtract lr · gradient before it


def sgd_step(codes, gradient, lr, form, generator=None):
    moved = decode(encode(decode(codes, form).float() - lr * gradient, form), form).float()
    return encode(moved, form) if generator is None else stochastic(moved, form, generator)
