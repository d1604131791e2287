# replaces: code-cure
# caught by: check-cure
# says: no more and no fewer


def cure(model, x, y):
    record = []
    for number in itertools.count():
        found = diagnose(model, x, y)
        if not found:
            return record
        if number > 10:
            raise RuntimeError(f"{found[0][0]} is still {found[0][1]}")
        for place, disease in found:
            treat(model, place, disease)
        record += found
