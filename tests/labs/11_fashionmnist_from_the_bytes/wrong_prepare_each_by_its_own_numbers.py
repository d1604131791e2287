# replaces: code-prepare
# caught by: check-prepare
# says: by the numbers of the first array


def prepare(learn, *others):
    return tuple(torch.from_numpy((each - each.mean()) / each.std()).float()[:, None] for each in (learn, *others))
