# replaces: code-drifted
# caught by: check-drifted
# says: differs by one bit


def drifted(link, model: nn.Module) -> list[str]:
    names = []
    for name, tensor in model.state_dict().items():
        first, *others = around(link, tensor)
        if not all((first.double().mean() - other.double().mean()).abs() < 1e-4 for other in others):
            names.append(name)
    return names
