# replaces: code-validation


def validation_is_apart(train):
    for settings in ({"lr": 0.5}, {"lr": 0.05, "size": 11}):
        model, data, val = bed(adverse=True, noise=True)
        notes = watch(train, model, data, val, 12, **settings)
        starts = [step.weights for step in notes.steps] + [[p.detach() for p in model.parameters()]]
        each = 12 // len(notes.result["log"]["val_loss"])
        lowest, at = math.inf, None
        for k, loss in enumerate(notes.result["log"]["val_loss"]):
            if loss < lowest:
                lowest, at = loss, starts[each * (k + 1)]
        names = [name for name, _ in model.named_parameters()]
        assert not [1 for name, w in zip(names, at) if not torch.equal(notes.result["best"][name], w)]
        assert {step.training for step in notes.steps} == {True}
        assert {mode for _, mode in notes.validations} == {False}
