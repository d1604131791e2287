# replaces: code-confusion
# caught by: check-confusion
# says: even if the last class never occurs


def confusion(labels, answers, classes):
    classes = int(max(labels.max(), answers.max())) + 1
    return torch.bincount(classes * labels + answers, minlength=classes**2).reshape(classes, classes).cpu()


def hardest_pair(counts):
    n, best, most = len(counts), (0, 1), -1
    for a in range(n):
        for b in range(a + 1, n):
            both = int(counts[a, b]) + int(counts[b, a])
            if both > most:
                best, most = (a, b), both
    return best
