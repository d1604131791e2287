# replaces: code-step
# caught by: check-step
# says: sgd_step(codes, gradient, 0.125, BF16)
# says: encode


def sgd_step(codes, gradient, lr, form, generator=None):
    moved = decode(codes, form).float() - lr * gradient
    return stochastic(moved, form, generator or torch.Generator(codes.device).manual_seed(0))
