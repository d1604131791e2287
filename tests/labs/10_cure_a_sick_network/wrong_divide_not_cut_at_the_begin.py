# replaces: code-divide
# caught by: check-divide
# says: cut at both ends of the step


def divide(spans):
    ((start, stop),) = [(a, b) for kind, _, a, b in spans if kind == "step"]
    parts = {name: 0 for name in ("data", "forward", "backward", "optimizer")}
    for kind, name, a, b in spans:
        if kind == "phase":
            parts[name] += b - a
    parts["idle"] = stop - start - sum(parts.values())
    covered, reached = 0, 0
    for a, b in sorted((a, b) for kind, _, a, b in spans if kind == "operator"):
        b = min(b, stop)
        covered += max(0, b - max(a, reached))
        reached = max(reached, b)
    parts["operators"] = covered
    return parts
