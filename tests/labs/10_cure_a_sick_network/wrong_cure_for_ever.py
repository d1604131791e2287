# replaces: code-cure
# caught by: check-cure
# says: no treatment helps here


def cure(model, x, y):
    record = []
    for _ in range(50):
        found = diagnose(model, x, y)
        for place, disease in found:
            treat(model, place, disease)
        record += found
    return record
