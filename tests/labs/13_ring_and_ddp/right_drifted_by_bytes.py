# replaces: code-drifted


def drifted(link, model):
    found = []
    for name, tensor in model.state_dict().items():
        raw = tensor.detach().cpu().reshape(-1).contiguous().view(torch.uint8)
        if len({bytes(each.cpu().tolist()) for each in around(link, raw)}) > 1:
            found.append(name)
    return found
