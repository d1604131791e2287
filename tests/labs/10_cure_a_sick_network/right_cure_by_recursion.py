# replaces: code-cure


def cure(model, x, y, rounds=10):
    found = diagnose(model, x, y)
    if found and not rounds:
        raise RuntimeError(f"no help for {', '.join(place for place, _ in found)}")
    for pair in found:
        treat(model, *pair)
    return [*found, *cure(model, x, y, rounds - 1)] if found else []
