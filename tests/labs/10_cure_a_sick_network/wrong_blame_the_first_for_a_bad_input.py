# replaces: code-blame
# caught by: check-blame
# says: look at x before you call anybody


def blame(model, x, criterion):
    def fine(t):
        return t is None or bool(t.isfinite().all())

    h, outputs = x, []
    for name, module in model.named_children():
        h = module(h)
        outputs.append((name, module, h))
        if not fine(h):
            return "forward", name
    loss = criterion(h)
    if not fine(loss):
        return "loss", ""
    if not loss.requires_grad:
        return None
    asking = [t for t in [*(o for *_, o in outputs), *model.parameters()] if t.requires_grad]
    gradients = dict(zip(map(id, asking), torch.autograd.grad(loss, asking, allow_unused=True)))
    if not fine(gradients.get(id(h))):
        return "loss", ""
    before = [x, *(o for *_, o in outputs)]
    for number in reversed(range(len(outputs))):
        name, module, _ = outputs[number]
        handed_on = [before[number], *module.parameters()]
        if not all(fine(gradients.get(id(t))) for t in handed_on):
            return "backward", name
    return None
