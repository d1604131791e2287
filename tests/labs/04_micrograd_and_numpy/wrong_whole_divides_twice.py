# replaces: code-whole
# caught by: check-whole
# says: db2 differs


def network_gradients(
    x: np.ndarray, y: np.ndarray, W1: np.ndarray, b1: np.ndarray, W2: np.ndarray, b2: np.ndarray
) -> tuple[float, list[np.ndarray]]:
    """The mean cross-entropy of relu(x W1ᵀ + b1) W2ᵀ + b2 for labels y, and [dW1, db1, dW2, db2].

    x (N, D), y (N,), W1 (H, D), b1 (H,), W2 (K, H), b2 (K,).
    """
    before = x @ W1.T + b1
    hidden = relu_forward(before)
    logits = hidden @ W2.T + b2
    to_logits = cross_entropy_backward(logits, y) / len(x)
    to_before = relu_backward(to_logits @ W2, before)
    gradients = [to_before.T @ x, to_before.sum(axis=0), to_logits.T @ hidden, to_logits.sum(axis=0)]
    return cross_entropy_forward(logits, y), gradients
