# replaces: code-gradients
# caught by: check-gradients
# says: an AssertionError, for in this loop


def gradients_are_of_the_batch(train) -> None:
    model, (x, y), val = bed()
    for number, step in enumerate(watch(train, model, (x, y), val, steps=6).steps):
        rows = [i - 1 for i in step.ids]
        wanted = batch_gradient(model, step.weights, x[rows], y[rows])
        for got, want in zip(step.gradients, wanted, strict=True):
            if (got - want).norm() > want.norm():
                raise AssertionError("off")
