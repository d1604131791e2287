# replaces: code-rows
# caught by: check-rows
# says: sum of g * p


def relu_forward(x: np.ndarray) -> np.ndarray:
    """The larger of x and 0, element by element, for any shape."""
    return np.maximum(x, 0)


def relu_backward(g: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The gradient for the input x of ReLU, given that for its output, g, of the same shape."""
    return np.where(x > 0, g, 0).astype(g.dtype)


def softmax_forward(z: np.ndarray) -> np.ndarray:
    """Shares that sum to 1 along the last axis, for z (..., K) of any size; where z is -inf they are 0."""
    powers = np.exp(z - z.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def softmax_backward(g: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The gradient for the input of softmax, given that for its output, g (..., K), and the output p (..., K) itself."""
    along = np.einsum("...k,...k->...", g, p)
    return g * p * (1 - p)
