# replaces: code-prepare
# caught by: check-prepare
# says: mean 0.75


def prepare(learn, *others):
    mean, std = learn.mean(), learn.std()
    return tuple(torch.from_numpy((each - np.uint8(mean)) / std).float()[:, None] for each in (learn, *others))
