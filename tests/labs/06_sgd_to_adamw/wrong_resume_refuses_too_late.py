# replaces: code-resume
# caught by: check-resume
# says: compare first, and set afterwards


def snapshot(optimizer):
    return {"lr": optimizer.lr, "state": copy.deepcopy(optimizer.state)}


def restore(optimizer, notes):
    optimizer.lr = notes["lr"]
    if len(notes["state"]) != len(optimizer.parameters):
        raise ValueError(f"{len(notes['state'])} parameters")
    optimizer.state = copy.deepcopy(notes["state"])
