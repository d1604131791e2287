# replaces: code-entropy


IGNORE = -100


def cross_entropy_forward(z, y):
    weight = (y != IGNORE).astype(z.dtype)
    if weight.sum() == 0:
        raise ValueError("all labels are IGNORE")
    bad = [int(label) for label in y if label != IGNORE and not 0 <= label < z.shape[1]]
    if bad:
        raise ValueError(f"no such class: {bad}")
    largest = z.max(1)
    losses = np.log(np.exp(z - largest[:, None]).sum(1)) + largest - z[np.arange(len(y)), np.where(y == IGNORE, 0, y)]
    return (losses * weight).sum() / weight.sum()


def cross_entropy_backward(z, y):
    cross_entropy_forward(z, y)  # raises
    weight = (y != IGNORE) / (y != IGNORE).sum()
    one_hot = (y[:, None] == np.arange(z.shape[1])).astype(z.dtype)
    return (softmax_forward(z) - one_hot) * weight[:, None]
