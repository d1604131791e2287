# replaces: code-prepare
# caught by: check-prepare
# says: a shape (N, 1, H, W)


def prepare(learn, *others):
    mean, std = learn.mean(), learn.std()
    return tuple(torch.from_numpy((each - mean) / std).float() for each in (learn, *others))
