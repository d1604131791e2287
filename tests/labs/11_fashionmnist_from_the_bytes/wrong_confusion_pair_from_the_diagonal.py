# replaces: code-confusion
# caught by: check-confusion
# says: the first of them


def confusion(labels, answers, classes):
    counts = torch.zeros(classes, classes, dtype=torch.int64)
    counts.index_put_((labels.cpu(), answers.cpu()), torch.tensor(1), accumulate=True)
    return counts


def hardest_pair(counts):
    both = counts + counts.T
    place = int(both.argmax())
    return tuple(sorted((place // len(counts), place % len(counts))))
