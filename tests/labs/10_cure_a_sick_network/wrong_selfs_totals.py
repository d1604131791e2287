# replaces: code-selfs
# caught by: check-selfs
# says: copy leaves addmm


def self_times(spans):
    own = {}
    for kind, name, a, b in spans:
        if kind == "operator":
            own[name] = own.get(name, 0) + b - a
    return own
