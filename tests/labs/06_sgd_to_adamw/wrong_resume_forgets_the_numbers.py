# replaces: code-resume
# caught by: check-resume
# says: rate, tensors and numbers come back


def snapshot(optimizer):
    tensors = [{k: v.clone() for k, v in each.items() if isinstance(v, Tensor)} for each in optimizer.state]
    return {"lr": optimizer.lr, "state": tensors}


def restore(optimizer, notes):
    if len(notes["state"]) != len(optimizer.parameters):
        raise ValueError(f"{len(notes['state'])} parameters")
    optimizer.lr = notes["lr"]
    for mine, saved in zip(optimizer.state, notes["state"]):
        mine.update(copy.deepcopy(saved))
