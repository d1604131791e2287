# replaces: code-order
# caught by: check-order
# says: a square
# says: each value once


def users_first(last):
    order = [last]
    for value in order:
        order += [parent for parent, _ in value.parents]
    return order
