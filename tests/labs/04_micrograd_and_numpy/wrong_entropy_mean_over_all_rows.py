# replaces: code-entropy
# caught by: check-entropy
# says: divide by 2, not by 3


IGNORE = -100  # a label that does not count


def cross_entropy_forward(z: np.ndarray, y: np.ndarray) -> float:
    """The mean of log Σ exp(z_k) - z_y over the rows of z (N, K) whose label in y (N,) is not IGNORE.

    ValueError, naming the label, for one outside of 0 to K - 1; ValueError if no row counts.
    """
    rows, labels = _counted(z, y)
    shifted = rows - rows.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(shifted).sum(axis=1)) - shifted[np.arange(len(labels)), labels]))


def _counted(z: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The rows that count and their labels."""
    counted = y != IGNORE
    labels = y[counted]
    if not len(labels):
        raise ValueError("no row counts: every label is IGNORE")
    for label in labels[(labels < 0) | (labels >= z.shape[1])]:
        raise ValueError(f"label {label} is not one of the {z.shape[1]} classes")
    return z[counted], labels


def cross_entropy_backward(z: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The gradient of cross_entropy_forward(z, y) for z, (N, K). ValueError as there."""
    rows, labels = _counted(z, y)
    shares = softmax_forward(rows)
    shares[np.arange(len(labels)), labels] -= 1
    gradient = np.zeros_like(z)
    gradient[y != IGNORE] = shares / len(y)
    return gradient
