# replaces: code-resume
# caught by: check-resume
# says: restore must copy too


def snapshot(optimizer):
    return {"lr": optimizer.lr, "state": copy.deepcopy(optimizer.state)}


def restore(optimizer, notes):
    if len(notes["state"]) != len(optimizer.parameters):
        raise ValueError(f"{len(notes['state'])} parameters")
    optimizer.lr = notes["lr"]
    optimizer.state = notes["state"]
