# replaces: code-prepare
# caught by: check-prepare
# says: mean 0.75


def prepare(learn, *others):
    mean, std = learn.mean(0), (learn.std(0) + 1e-6)
    return tuple(torch.from_numpy((each - mean) / std).float()[:, None] for each in (learn, *others))
