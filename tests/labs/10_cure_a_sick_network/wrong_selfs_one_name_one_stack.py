# replaces: code-selfs
# caught by: check-selfs
# says: directly around it


def self_times(spans):
    operators = [(a, b, name) for kind, name, a, b in spans if kind == "operator"]
    own = {}
    for a, b, name in operators:
        inside = sum(d - c for c, d, other in operators if a <= c and d <= b and (c, d) != (a, b))
        own[name] = own.get(name, 0) + max(0, b - a - inside)
    return own
