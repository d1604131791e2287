# replaces: code-order


def users_first(last):
    order, seen, todo = [], set(), [(last, False)]
    while todo:
        value, done = todo.pop()
        if done:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            todo.append((value, True))
            todo += [(parent, False) for parent, _ in value.parents]
    return order[::-1]
