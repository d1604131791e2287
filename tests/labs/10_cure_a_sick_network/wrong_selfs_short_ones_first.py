# replaces: code-selfs
# caught by: check-selfs
# says: the longer one is around the other


def self_times(spans):
    own, stack = {}, []
    operators = [(a, b, name) for kind, name, a, b in spans if kind == "operator"]
    for a, b, name in sorted(operators):
        while stack and stack[-1][1] <= a:
            stack.pop()
        for outer, _ in stack[-1:]:
            own[outer] -= b - a
        own[name] = own.get(name, 0) + b - a
        stack.append((name, b))
    return own
