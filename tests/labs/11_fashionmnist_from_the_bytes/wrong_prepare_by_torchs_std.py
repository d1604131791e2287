# replaces: code-prepare
# caught by: check-prepare
# says: divides by n − 1


def prepare(learn, *others):
    pixels = torch.from_numpy(learn).float()
    return tuple(((torch.from_numpy(each).float() - pixels.mean()) / pixels.std()).unsqueeze(1) for each in (learn, *others))
