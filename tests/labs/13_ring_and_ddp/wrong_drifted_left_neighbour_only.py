# replaces: code-drifted
# caught by: check-drifted
# says: every rank says so


def drifted(link, model: nn.Module) -> list[str]:
    names = []
    for name, tensor in model.state_dict().items():
        everyones = around(link, tensor)
        if not torch.equal(everyones[link.rank], everyones[link.rank - 1]):
            names.append(name)
    return names
