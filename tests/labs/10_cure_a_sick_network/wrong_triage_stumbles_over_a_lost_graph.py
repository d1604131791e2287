# replaces: code-triage
# caught by: check-triage
# says: a loss without a graph is a finding, no error


def triage(model, loss_of):
    loss = loss_of(model)
    asking = [p for p in model.parameters() if p.requires_grad]
    fresh = iter(torch.autograd.grad(loss, asking, allow_unused=True))
    kinds = {}
    for name, p in model.named_parameters():
        g = next(fresh) if p.requires_grad else None
        if not p.requires_grad:
            kinds[name] = "frozen"
        elif g is None:
            kinds[name] = "none"
        else:
            kinds[name] = "broken" if not g.isfinite().all() else "alive" if g.any() else "zero"
    return kinds
