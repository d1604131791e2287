# replaces: code-divide


def divide(spans):
    start, stop = next((a, b) for kind, _, a, b in spans if kind == "step")
    changes = []
    for kind, name, a, b in spans:
        what = name if kind == "phase" else kind
        changes += [(min(max(a, start), stop), what, 1), (min(max(b, start), stop), what, -1)]
    depth = dict.fromkeys(("data", "forward", "backward", "optimizer", "operator", "step"), 0)
    spent = dict.fromkeys(depth, 0)
    then = start
    for now, what, change in sorted(changes):
        for name, open_ones in depth.items():
            spent[name] += (now - then) * (open_ones > 0)
        then, depth[what] = now, depth[what] + change
    covered, whole = spent.pop("operator"), spent.pop("step")
    return {**spent, "operators": covered, "idle": whole - sum(spent.values())}
