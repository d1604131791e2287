# replaces: code-cure
# caught by: check-cure
# says: in the order of treatment


def cure(model, x, y):
    record = []
    for _ in range(10):
        found = diagnose(model, x, y)
        if not found:
            return sorted(record, reverse=True)
        record += found
        for place, disease in found:
            treat(model, place, disease)
    raise RuntimeError(f"still ill: {found}")
