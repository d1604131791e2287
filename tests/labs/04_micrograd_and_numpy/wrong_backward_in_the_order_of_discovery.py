# replaces: code-backward
# caught by: check-backward
# says: [40.0, 24.0, 4.0]
# says: only after all of its users


def backward(last):
    last.grad, todo, seen = 1.0, [last], {last}
    for value in todo:
        for parent, slope in value.parents:
            parent.grad += slope * value.grad
            if parent not in seen:
                seen.add(parent)
                todo.append(parent)
