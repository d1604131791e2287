# replaces: code-resume
# caught by: check-resume
# says: a ValueError that names the 3 parameters


def snapshot(optimizer):
    return {"lr": optimizer.lr, "state": copy.deepcopy(optimizer.state)}


def restore(optimizer, notes):
    optimizer.lr = notes["lr"]
    optimizer.state = copy.deepcopy(notes["state"])
