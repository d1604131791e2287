# replaces: code-order
# caught by: check-order
# says: RecursionError
# says: keep a list of your own


def users_first(last):
    order, seen = [], set()

    def visit(value):
        if value not in seen:
            seen.add(value)
            for parent, _ in value.parents:
                visit(parent)
            order.append(value)

    visit(last)
    return order[::-1]
