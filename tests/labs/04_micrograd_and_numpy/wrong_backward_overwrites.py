# replaces: code-backward
# caught by: check-backward
# says: [1.0, 18.0, 108.0]
# says: add, do not overwrite


def backward(last):
    last.grad = 1.0
    for value in users_first(last):
        for parent, slope in value.parents:
            parent.grad = slope * value.grad
