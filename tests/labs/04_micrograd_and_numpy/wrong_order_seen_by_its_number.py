# replaces: code-order
# caught by: check-order
# says: itself and not its number


def users_first(last):
    order, seen, todo = [], set(), [(last, False)]
    while todo:
        value, done = todo.pop()
        if done:
            order.append(value)
        elif value.data not in seen:
            seen.add(value.data)
            todo.append((value, True))
            todo += [(parent, False) for parent, _ in value.parents]
    return order[::-1]
