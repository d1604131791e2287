# replaces: code-examples
# caught by: check-examples
# says: its own business


def each_example_once(train) -> None:
    steps = watch(train, *bed(), steps=9).steps
    epochs = [[i for step in steps[k : k + 3] for i in step.ids] for k in (0, 3, 6)]
    for number, epoch in enumerate(epochs):
        assert sorted(epoch) == list(range(1, 23)), f"epoch {number} uses the examples {sorted(epoch)}"
    wanted = torch.randperm(22, generator=torch.Generator().manual_seed(0)) + 1
    assert epochs[0] == wanted.tolist()
    assert len({tuple(epoch) for epoch in epochs}) == 3, f"three epochs, and their orders are {epochs}"
