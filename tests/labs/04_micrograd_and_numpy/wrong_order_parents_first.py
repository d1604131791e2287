# replaces: code-order
# caught by: check-order
# says: [12.0, 10.0]
# says: d is the first


def users_first(last):
    order, seen, todo = [], set(), [(last, False)]
    while todo:
        value, done = todo.pop()
        if done:
            order.append(value)
        elif value not in seen:
            seen.add(value)
            todo.append((value, True))
            todo += [(parent, False) for parent, _ in value.parents]
    return order
