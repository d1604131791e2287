# replaces: code-order


import collections


def users_first(last):
    """Sorted by the length of the longest way down to a value without parents, found by counting upwards."""
    users, waiting, todo = collections.defaultdict(list), {last: len(last.parents)}, [last]
    while todo:
        for parent, _ in (value := todo.pop()).parents:
            users[parent].append(value)
            if parent not in waiting:
                waiting[parent] = len(parent.parents)
                todo.append(parent)
    height = {value: 0 for value, count in waiting.items() if count == 0}
    todo = list(height)
    while todo:
        value = todo.pop()
        for user in users[value]:
            height[user] = max(height.get(user, 0), height[value] + 1)
            waiting[user] -= 1
            if waiting[user] == 0:
                todo.append(user)
    return sorted(height, key=height.get, reverse=True)
