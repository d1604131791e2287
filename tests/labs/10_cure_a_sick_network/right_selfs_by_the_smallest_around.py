# replaces: code-selfs


def self_times(spans):
    operators = [(begin, end, name) for kind, name, begin, end in spans if kind == "operator"]
    own = dict.fromkeys((name for *_, name in operators), 0)
    for begin, end, name in operators:
        own[name] += end - begin
        around = [o for o in operators if o[0] <= begin and end <= o[1] and o[:2] != (begin, end)]
        if around:
            own[min(around, key=lambda o: o[1] - o[0])[2]] -= end - begin
    return own
