# replaces: code-order
# caught by: check-order
# says: expected: [12.0, 10.0]
# says: they must wait


def users_first(last):
    order, seen, todo = [], set(), [last]
    while todo:
        value = todo.pop()
        if value not in seen:
            seen.add(value)
            order.append(value)
            todo += [parent for parent, _ in value.parents]
    return order
