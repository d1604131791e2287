# replaces: code-validation
# caught by: check-validation
# says: best has to be compared


def validation_is_apart(train) -> None:
    model, data, val = bed(adverse=True)
    notes = watch(train, model, data, val, steps=9)
    assert all((step.training for step in notes.steps)), f"in training mode: {[step.training for step in notes.steps]}"
    modes = [training for _, training in notes.validations]
    assert modes and (not any(modes)), f"validation, in training mode: {modes}"
    weights = [step.weights for step in notes.steps] + [list(model.parameters())]
    losses = notes.result["log"]["val_loss"]
    wanted = weights[3 * (losses.index(min(losses)) + 1)]
    best = list(notes.result["best"].values())
    assert best and wanted
