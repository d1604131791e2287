# replaces: code-gradients
# caught by: check-gradients
# says: every gradient 0.1 % too long


def gradients_are_of_the_batch(train) -> None:
    model, (x, y), val = bed()
    for t, step in enumerate(watch(train, model, (x, y), val, steps=6).steps):
        rows = [i - 1 for i in step.ids]
        for got, want in zip(step.gradients, batch_gradient(model, step.weights, x[rows], y[rows]), strict=True):
            assert torch.allclose(got, want, atol=1e-2), f"step {t}"
