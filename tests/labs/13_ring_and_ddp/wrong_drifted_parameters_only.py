# replaces: code-drifted
# caught by: check-drifted
# says: buffers are in the state dict


def drifted(link, model: nn.Module) -> list[str]:
    names = []
    for name, tensor in model.named_parameters():
        first, *others = around(link, tensor)
        if not all(torch.equal(first, other) for other in others):
            names.append(name)
    return names
