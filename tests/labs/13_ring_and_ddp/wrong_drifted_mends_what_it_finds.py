# replaces: code-drifted
# caught by: check-drifted
# says: only look


def drifted(link, model: nn.Module) -> list[str]:
    names = []
    for name, tensor in model.state_dict().items():
        first, *others = around(link, tensor)
        if not all(torch.equal(first, other) for other in others):
            names.append(name)
            tensor.copy_(first)
    return names
