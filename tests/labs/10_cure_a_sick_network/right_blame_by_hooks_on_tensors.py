# replaces: code-blame


def blame(model, x, criterion):
    sound = lambda t: bool(torch.isfinite(t).all())
    arrived, stages = {}, []
    if not sound(x):
        return ("input", "")
    h = x
    for name, module in model.named_children():
        h = module(h)
        if not sound(h):
            return ("forward", name)
        if h.requires_grad:
            h.register_hook(lambda g, name=name: arrived.update({name: sound(g)}))
        stages.insert(0, name)
    loss = criterion(h)
    if not sound(loss):
        return ("loss", "")
    names, asking = zip(*[(n, p) for n, p in model.named_parameters() if p.requires_grad] or [((), ())])
    if not loss.requires_grad:
        return None
    own = dict(zip(names, torch.autograd.grad(loss, asking, allow_unused=True)))
    if not arrived.get(stages[0], True):
        return ("loss", "")
    for name, feeder in zip(stages, [*stages[1:], None]):
        mine = [g for n, g in own.items() if n.split(".")[0] == name and g is not None]
        if not arrived.get(feeder, True) or not all(map(sound, mine)):
            return ("backward", name)
    return None
