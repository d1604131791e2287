# replaces: code-entropy
# caught by: check-entropy
# says: a row with label -100


IGNORE = -100


def cross_entropy_forward(z, y):
    shifted = z - z.max(1, keepdims=True)
    return np.mean(np.log(np.exp(shifted).sum(1)) - shifted[np.arange(len(y)), y])


def cross_entropy_backward(z, y):
    return (softmax_forward(z) - np.eye(z.shape[1])[y]) / len(y)
