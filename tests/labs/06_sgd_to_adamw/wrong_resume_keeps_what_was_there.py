# replaces: code-resume
# caught by: check-resume
# says: rate, tensors and numbers come back


def snapshot(optimizer):
    return {"lr": optimizer.lr, "state": copy.deepcopy(optimizer.state)}


def restore(optimizer, notes):
    if len(notes["state"]) != len(optimizer.parameters):
        raise ValueError(f"{len(notes['state'])} parameters")
    optimizer.lr = notes["lr"]
    for mine, saved in zip(optimizer.state, notes["state"]):
        mine.update(copy.deepcopy(saved))
