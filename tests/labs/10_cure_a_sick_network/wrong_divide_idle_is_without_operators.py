# replaces: code-divide
# caught by: check-divide
# says: idle is what of the step lies in no phase


def divide(spans):
    ((start, stop),) = [(a, b) for kind, _, a, b in spans if kind == "step"]
    parts = {name: 0 for name in ("data", "forward", "backward", "optimizer")}
    for kind, name, a, b in spans:
        if kind == "phase":
            parts[name] += b - a
    parts["idle"] = stop - start - sum(b - a for kind, _, a, b in spans if kind == 'operator')
    covered, reached = 0, start
    for a, b in sorted((a, b) for kind, _, a, b in spans if kind == "operator"):
        b = min(b, stop)
        covered += max(0, b - max(a, reached))
        reached = max(reached, b)
    parts["operators"] = covered
    return parts
