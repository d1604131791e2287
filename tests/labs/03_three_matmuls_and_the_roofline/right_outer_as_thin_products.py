# replaces: code-outer


def outer_matmul(A, B):
    layers = (A[:, p : p + 1] @ B[p : p + 1, :] for p in range(A.shape[1]))
    return sum(layers, start=np.zeros((len(A), B.shape[1]), dtype=A.dtype))
