# replaces: code-examples
# caught by: check-examples
# says: batches that overlap by an example
# says: some of them twice


def each_example_once(train) -> None:
    steps = watch(train, *bed(), steps=9).steps
    epochs = [[i for step in steps[k : k + 3] for i in step.ids] for k in (0, 3, 6)]
    for epoch in epochs:
        assert set(epoch) == set(range(1, 23))
    assert len({tuple(epoch) for epoch in epochs}) == 3
