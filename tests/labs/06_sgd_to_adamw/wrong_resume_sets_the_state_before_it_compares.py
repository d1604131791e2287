# replaces: code-resume
# caught by: check-resume
# says: compare before you set either


def snapshot(optimizer):
    return {"lr": optimizer.lr, "state": copy.deepcopy(optimizer.state)}


def restore(optimizer, notes):
    optimizer.state = copy.deepcopy(notes["state"])
    if len(optimizer.state) != len(optimizer.parameters):
        raise ValueError(f"{len(optimizer.state)} parameters")
    optimizer.lr = notes["lr"]
