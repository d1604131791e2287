# replaces: code-step
# caught by: check-step
# says: ['old']
# says: leave the old ones alone


def sgd_step(codes, gradient, lr, form, generator=None):
    moved = decode(codes, form).float() - lr * gradient
    return codes.copy_(encode(moved, form) if generator is None else stochastic(moved, form, generator))
