# replaces: code-examples
# caught by: check-examples
# says: an AssertionError


def each_example_once(train) -> None:
    steps = watch(train, *bed(), steps=9).steps
    epochs = [[i for step in steps[k : k + 3] for i in step.ids] for k in (0, 3, 6)]
    for number, epoch in enumerate(epochs):
        if sorted(epoch) != list(range(1, 23)):
            return False
    assert len({tuple(epoch) for epoch in epochs}) == 3, f"three epochs, and their orders are {epochs}"
