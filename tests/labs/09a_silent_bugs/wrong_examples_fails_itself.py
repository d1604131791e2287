# replaces: code-examples
# caught by: check-examples
# says: the instrument itself fails


def each_example_once(train) -> None:
    steps = watch(train, bed(), steps=9).steps
    assert len(steps) == 9
