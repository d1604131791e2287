# replaces: code-reports


def reports_are_true(train):
    model, (x, y), val = bed()
    own = copy.deepcopy(model)
    notes = watch(train, model, (x, y), val, 9, clip=0.1, lr=0.05)
    log = notes.result["log"]

    def put(weights):
        for p, w in zip(own.parameters(), weights):
            p.data.copy_(w)
        return own.eval()

    def close(got, want, what):
        assert abs(got - want) <= 1e-6 * abs(want), f"{what}: {got}, {want}"

    assert [len(log[name]) for name in ("loss", "norm", "rate", "val_loss")] == [9, 9, 9, 3]
    for k, step in enumerate(notes.steps):
        rows = [i - 1 for i in step.ids]
        net = put(step.weights)
        net.zero_grad()
        loss = F.cross_entropy(net(x[rows]), y[rows])
        loss.backward()
        close(log["loss"][k], loss.item(), "loss")
        close(log["norm"][k], torch.cat([p.grad.flatten() for p in net.parameters()]).norm().item(), "norm")
        close(log["rate"][k], step.rate, "rate")
        if k % 3 == 0 and k:
            close(log["val_loss"][k // 3 - 1], F.cross_entropy(net(val[0]), val[1]).item(), "validation")
    close(log["val_loss"][2], F.cross_entropy(put(list(model.parameters()))(val[0]), val[1]).item(), "validation")
