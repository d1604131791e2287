# replaces: code-step
# caught by: check-step
# says: values differ
# says: subtract lr · gradient in float32


def sgd_step(codes, gradient, lr, form, generator=None):
    moved = decode(codes, form).float() + lr * gradient
    return encode(moved, form) if generator is None else stochastic(moved, form, generator)
