# replaces: code-examples


def each_example_once(train):
    model, data, val = bed(noise=True)
    seen, orders = {}, []
    for number, step in enumerate(watch(train, model, data, val, 6, size=11, parts=1, lr=0.01).steps):
        for i in step.ids:
            key = (number // 2, i)
            seen[key] = seen.get(key, 0) + 1
        if number % 2 == 0:
            orders.append([])
        orders[-1] += step.ids
    steps = watch(train, *bed(), steps=3).steps
    if sum(len(step.ids) for step in steps) != 22 or len({i for step in steps for i in step.ids}) != 22:
        raise AssertionError("with a short last batch")
    if seen != {(epoch, i): 1 for epoch in range(3) for i in range(1, 23)}:
        raise AssertionError(f"{seen}")
    if orders[0] == orders[1] or orders[1] == orders[2] or orders[0] == orders[2]:
        raise AssertionError(f"{orders}")
