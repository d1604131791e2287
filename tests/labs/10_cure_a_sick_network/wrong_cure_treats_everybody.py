# replaces: code-cure
# caught by: check-cure
# says: treat only what was found in it


def cure(model, x, y):
    record = []
    for _ in range(10):
        found = diagnose(model, x, y)
        record += found
        if not found:
            return record
        for name, module in model.named_children():
            if isinstance(module, nn.Linear):
                for disease in DISEASES:
                    treat(model, name, disease)
    raise RuntimeError(f"still ill: {found}")
