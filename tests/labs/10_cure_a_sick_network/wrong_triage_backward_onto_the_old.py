# replaces: code-triage
# caught by: check-triage
# says: take fresh ones


def triage(model, loss_of):
    loss_of(model).backward()
    kinds = {}
    for name, p in model.named_parameters():
        if not p.requires_grad:
            kinds[name] = "frozen"
        elif p.grad is None:
            kinds[name] = "none"
        elif not p.grad.isfinite().all():
            kinds[name] = "broken"
        else:
            kinds[name] = "alive" if p.grad.any() else "zero"
    return kinds
