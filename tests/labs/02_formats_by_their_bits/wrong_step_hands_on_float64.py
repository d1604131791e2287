# replaces: code-step
# caught by: check-step
# says: got torch.float64
# says: call .float() first


def sgd_step(codes, gradient, lr, form, generator=None):
    moved = decode(codes, form) - lr * gradient
    return encode(moved, form) if generator is None else stochastic(moved, form, generator)
