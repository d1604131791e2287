# replaces: code-step
# caught by: check-step
# says: sgd_step(codes, gradient, 0.125, BF16)
# says: in float32


def sgd_step(codes, gradient, lr, form, generator=None):
    update = decode(encode(lr * gradient, form), form)
    moved = (decode(codes, form) - update).float()
    return encode(moved, form) if generator is None else stochastic(moved, form, generator)
