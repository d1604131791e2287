# replaces: code-backward


def backward(last):
    order = users_first(last)
    before = [value.grad for value in order]
    for value in order:
        value.grad = 0.0
    last.grad = 1.0
    for value in order:
        for parent, slope in value.parents:
            parent.grad += slope * value.grad
    for value, old in zip(order, before):
        value.grad += old
