# replaces: code-backward


def backward(last):
    """Each value asks its users, instead of being handed something by them."""
    order = users_first(last)
    users = {value: [] for value in order}
    for value in order:
        for parent, slope in value.parents:
            users[parent].append((value, slope))
    arrived = {}
    for value in order:
        arrived[value] = 1.0 if value is last else math.fsum(slope * arrived[user] for user, slope in users[value])
        value.grad = value.grad + arrived[value]
