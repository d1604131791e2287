# replaces: code-triage
# caught by: check-triage
# says: p.grad is to stay as it was


def triage(model, loss_of):
    model.zero_grad()
    loss = loss_of(model)
    if loss.requires_grad:
        loss.backward()
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
