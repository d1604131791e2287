# replaces: code-backward
# caught by: check-backward
# says: [1.0, 18.0, 108.0]


def backward(last):
    arrived = dict.fromkeys(users_first(last), 0.0)
    arrived[last] = 1.0
    for value in arrived:
        for parent, slope in value.parents:
            arrived[parent] += slope * arrived[value]
            parent.grad += slope * arrived[value]
