# replaces: code-reports
# caught by: check-reports
# says: at the weights before the step


def reports_are_true(train) -> None:
    model, (x, y), val = bed()
    notes = watch(train, model, (x, y), val, steps=6, clip=0.05)
    weights = [step.weights for step in notes.steps] + [[p.detach() for p in model.parameters()]]

    def loss_at(weights, x, y):
        names = [name for name, _ in model.named_parameters()]
        outputs = torch.func.functional_call(model.eval(), dict(zip(names, weights, strict=True)), (x,))
        return F.cross_entropy(outputs, y).item()

    told = {"loss": [], "norm": [], "rate": [], "val_loss": [loss_at(weights[k], *val) for k in (3, 6)]}
    for k, step in enumerate(notes.steps):
        rows = [i - 1 for i in step.ids]
        gradients = batch_gradient(model, step.weights, x[rows], y[rows])
        told["loss"].append(loss_at(weights[k + 1], x[rows], y[rows]))
        told["norm"].append(math.sqrt(sum((g.square().sum().item() for g in gradients))))
        told["rate"].append(step.rate)
    for name, wanted in told.items():
        got = notes.result["log"][name]
        same = len(got) == len(wanted) and all((math.isclose(a, b, rel_tol=1e-06) for a, b in zip(got, wanted, strict=True)))
        assert same, f"the log has {name} {got}, and it was {wanted}"
