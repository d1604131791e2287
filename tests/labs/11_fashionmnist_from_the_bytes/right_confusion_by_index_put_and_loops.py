# replaces: code-confusion


def confusion(labels, answers, classes):
    counts = torch.zeros(classes, classes, dtype=torch.int64)
    counts.index_put_((labels.cpu(), answers.cpu()), torch.tensor(1), accumulate=True)
    return counts


def hardest_pair(counts):
    n, best, most = len(counts), (0, 1), -1
    for a in range(n):
        for b in range(a + 1, n):
            both = int(counts[a, b]) + int(counts[b, a])
            if both > most:
                best, most = (a, b), both
    return best
