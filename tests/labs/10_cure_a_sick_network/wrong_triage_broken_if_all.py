# replaces: code-triage
# caught by: check-triage
# says: one entry that is NaN is enough


def triage(model, loss_of):
    loss = loss_of(model)
    asking = {name: p for name, p in model.named_parameters() if p.requires_grad}
    gradients = dict.fromkeys(asking)
    if asking and loss.requires_grad:
        gradients = dict(zip(asking, torch.autograd.grad(loss, list(asking.values()), allow_unused=True)))
    kinds = {}
    for name, p in model.named_parameters():
        g = gradients.get(name)
        if not p.requires_grad:
            kinds[name] = "frozen"
        elif g is None:
            kinds[name] = "none"
        elif g.isnan().all():
            kinds[name] = "broken"
        else:
            kinds[name] = "alive" if g.any() else "zero"
    return kinds
