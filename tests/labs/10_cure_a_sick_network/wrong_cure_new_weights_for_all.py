# replaces: code-cure
# caught by: check-cure
# says: the weights of a healthy layer changed


def cure(model, x, y):
    record = []
    for _ in range(10):
        found = diagnose(model, x, y)
        if not found:
            return record
        record += found
        for place, disease in found:
            treat(model, place, disease)
        treat(model, "head", "dead")
    raise RuntimeError(f"still ill: {found}")
