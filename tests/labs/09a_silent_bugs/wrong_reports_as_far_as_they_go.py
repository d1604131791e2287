# replaces: code-reports
# caught by: check-reports
# says: one validation loss is not logged
# says: compare the lengths, too


def reports_are_true(train) -> None:
    model, (x, y), val = bed()
    notes = watch(train, model, (x, y), val, steps=6, clip=0.05)
    weights = [step.weights for step in notes.steps] + [[p.detach() for p in model.parameters()]]
    own = copy.deepcopy(model).eval()

    def loss_at(weights, x, y):
        with torch.no_grad():
            for p, w in zip(own.parameters(), weights, strict=True):
                p.copy_(w)
            return F.cross_entropy(own(x), y).item()

    told = {"loss": [], "norm": [], "rate": [], "val_loss": [loss_at(weights[k], *val) for k in (3, 6)]}
    for step in notes.steps:
        rows = [i - 1 for i in step.ids]
        gradients = batch_gradient(model, step.weights, x[rows], y[rows])
        told["loss"].append(loss_at(step.weights, x[rows], y[rows]))
        told["norm"].append(math.sqrt(sum(g.square().sum().item() for g in gradients)))
        told["rate"].append(step.rate)
    for name, wanted in told.items():
        for got, want in zip(notes.result["log"][name], wanted, strict=False):
            assert math.isclose(got, want, rel_tol=1e-6), f"{name}: {got} in place of {want}"
