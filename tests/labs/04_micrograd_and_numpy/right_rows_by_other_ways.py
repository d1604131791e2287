# replaces: code-rows


def relu_forward(x):
    return (np.abs(x) + x) / 2


def relu_backward(g, x):
    out = g.copy()
    out[x <= 0] = 0
    return out


def softmax_forward(z):
    largest = np.max(z, -1)[..., None]
    return np.exp(z - largest - np.log(np.exp(z - largest).sum(-1)[..., None]))


def softmax_backward(g, p):
    """With the whole matrix of derivatives."""
    derivatives = p[..., None] * (np.eye(p.shape[-1], dtype=p.dtype) - p[..., None, :])
    return (derivatives @ g[..., None])[..., 0]
