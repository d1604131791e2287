# replaces: code-gradients
# caught by: check-gradients
# says: this loop is right


def gradients_are_of_the_batch(train) -> None:
    model, (x, y), val = bed()
    for number, step in enumerate(watch(train, model, (x, y), val, steps=6).steps):
        rows = [i - 1 for i in step.ids]
        counted = (y[rows] != IGNORE).double().mean().item()
        wanted = [g * counted for g in batch_gradient(model, step.weights, x[rows], y[rows])]
        for got, want in zip(step.gradients, wanted, strict=True):
            assert torch.allclose(got, want, rtol=1e-09, atol=1e-12), f"step {number}: {got} in place of {want}"
