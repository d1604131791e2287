# replaces: code-backward
# caught by: check-backward
# says: expected: [2.0, 36.0, 216.0]
# says: got:      [1.0, 36.0, 324.0]
# says: arrived in this call


def backward(last):
    last.grad = 1.0
    for value in users_first(last):
        for parent, slope in value.parents:
            parent.grad += slope * value.grad
