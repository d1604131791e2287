# replaces: code-prepare
# caught by: check-prepare
# says: float32 for each


def prepare(learn, *others):
    mean, std = learn.mean(), learn.std()
    return tuple(torch.from_numpy((each - mean) / std)[:, None] for each in (learn, *others))
