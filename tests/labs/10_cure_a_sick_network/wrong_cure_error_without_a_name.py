# replaces: code-cure
# caught by: check-cure
# says: with the name of a layer that is still ill


def cure(model, x, y):
    record = []
    for _ in range(10):
        found = diagnose(model, x, y)
        if not found:
            return record
        record += found
        for place, disease in found:
            treat(model, place, disease)
    raise RuntimeError("this patient cannot be helped")
