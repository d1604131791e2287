# replaces: code-backward
# caught by: check-backward
# says: RecursionError
# says: in a loop


def backward(last, gradient=1.0):
    last.grad += gradient
    for parent, slope in last.parents:
        backward(parent, slope * gradient)
