# replaces: code-cure


def cure(model, x, y):
    record = []
    while found := diagnose(model, x, y):
        if len(record) == 10:
            raise RuntimeError(f"still ill: {found}")
        treat(model, *found[0])
        record.append(found[0])
    return record
