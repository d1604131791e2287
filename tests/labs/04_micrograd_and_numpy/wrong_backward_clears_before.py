# replaces: code-backward
# caught by: check-backward
# says: expected: 12.0
# says: got:      6.0
# says: adds to the .grad


def backward(last):
    order = users_first(last)
    for value in order:
        value.grad = 0.0
    last.grad = 1.0
    for value in order:
        for parent, slope in value.parents:
            parent.grad += slope * value.grad
