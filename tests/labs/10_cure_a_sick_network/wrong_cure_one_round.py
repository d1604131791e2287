# replaces: code-cure
# caught by: check-cure
# says: what was hidden shows up only when you look again


def cure(model, x, y):
    record = diagnose(model, x, y)
    for place, disease in record:
        treat(model, place, disease)
    return record
