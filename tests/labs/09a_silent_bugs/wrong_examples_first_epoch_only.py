# replaces: code-examples
# caught by: check-examples
# says: compare the epochs with each other


def each_example_once(train) -> None:
    steps = watch(train, *bed(), steps=9).steps
    epochs = [[i for step in steps[k : k + 3] for i in step.ids] for k in (0,)]
    for number, epoch in enumerate(epochs):
        assert sorted(epoch) == list(range(1, 23)), f"epoch {number} uses the examples {sorted(epoch)}"
    pass
