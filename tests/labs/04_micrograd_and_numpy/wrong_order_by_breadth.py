# replaces: code-order
# caught by: check-order
# says: the long way and the short way
# says: before one of its users


def users_first(last):
    order, seen = [last], {last}
    for value in order:
        for parent, _ in value.parents:
            if parent not in seen:
                seen.add(parent)
                order.append(parent)
    return order
