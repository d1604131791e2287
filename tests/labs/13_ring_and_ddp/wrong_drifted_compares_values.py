# replaces: code-drifted
# caught by: check-drifted
# says: view(torch.uint8)


def drifted(link, model: nn.Module) -> list[str]:
    """The names in model.state_dict() whose bits differ between ranks, in its order; the same list on every rank."""
    names = []
    for name, tensor in model.state_dict().items():
        first, *others = around(link, tensor)
        if not all(torch.equal(first, other) for other in others):
            names.append(name)
    return names
