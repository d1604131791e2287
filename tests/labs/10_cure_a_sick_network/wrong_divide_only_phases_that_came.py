# replaces: code-divide
# caught by: check-divide
# says: 'backward'


def divide(spans):
    ((start, stop),) = [(a, b) for kind, _, a, b in spans if kind == "step"]
    parts = {}
    for kind, name, a, b in spans:
        if kind == "phase":
            parts[name] = parts.get(name, 0) + b - a
    covered, reached = 0, start
    for a, b in sorted((a, min(b, stop)) for kind, _, a, b in spans if kind == "operator"):
        covered += max(0, b - max(a, reached))
        reached = max(reached, b)
    return {**parts, "idle": stop - start - sum(parts.values()), "operators": covered}
