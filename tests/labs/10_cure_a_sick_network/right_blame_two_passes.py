# replaces: code-blame


def blame(model, x, criterion):
    def bad(t):
        return t is not None and not bool(t.isfinite().all())

    if bad(x):
        return ["input", ""]
    names = [name for name, _ in model.named_children()]
    values = [x]
    for name in names:
        values.append(model.get_submodule(name)(values[-1]))
        if bad(values[-1]):
            return ["forward", name]
    loss = criterion(values[-1])
    if bad(loss):
        return ["loss", ""]
    if loss.grad_fn is None:
        return None

    def gradient(t):
        return torch.autograd.grad(loss, t, retain_graph=True, allow_unused=True)[0] if t.requires_grad else None

    if bad(gradient(values[-1])):
        return ["loss", ""]
    for place in range(len(names) - 1, -1, -1):
        if any(bad(gradient(t)) for t in [values[place], *model.get_submodule(names[place]).parameters()]):
            return ["backward", names[place]]
    return None
