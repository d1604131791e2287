# replaces: code-resume
# caught by: check-resume
# says: is every tensor copied?


def snapshot(optimizer):
    return {"lr": optimizer.lr, "state": optimizer.state}


def restore(optimizer, notes):
    if len(notes["state"]) != len(optimizer.parameters):
        raise ValueError(f"{len(notes['state'])} parameters")
    optimizer.lr = notes["lr"]
    optimizer.state = copy.deepcopy(notes["state"])
