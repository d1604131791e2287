# replaces: code-examples
# caught by: check-examples
# says: an AssertionError, for in this loop


def each_example_once(train) -> None:
    steps = watch(train, *bed(), steps=9).steps
    epochs = [[i for step in steps[k : k + 3] for i in step.ids] for k in (0, 3, 6)]
    assert {i for epoch in epochs for i in epoch} == set(range(1, 23))
    assert len({tuple(epoch) for epoch in epochs}) == 3, f"three epochs, and their orders are {epochs}"
