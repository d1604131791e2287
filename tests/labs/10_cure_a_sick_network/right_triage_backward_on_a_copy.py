# replaces: code-triage


def triage(model, loss_of):
    kept = [(p, p.grad) for p in model.parameters()]
    kinds = {}
    try:
        for p, _ in kept:
            p.grad = None
        loss = loss_of(model)
        if loss.grad_fn is not None:
            loss.backward()
        for name, p in model.named_parameters():
            entries = [] if p.grad is None else p.grad.flatten().tolist()
            if not p.requires_grad:
                kinds[name] = "frozen"
            elif not entries:
                kinds[name] = "none"
            elif not all(math.isfinite(each) for each in entries):
                kinds[name] = "broken"
            else:
                kinds[name] = "alive" if any(each != 0 for each in entries) else "zero"
    finally:
        for p, grad in kept:
            p.grad = grad
    return kinds
