# replaces: code-outer
# caught by: check-outer
# says: ValueError: matmul
# says: shape (m, 1)


def outer_matmul(A, B):
    C = np.zeros((A.shape[0], B.shape[1]), dtype=A.dtype)
    for p in range(A.shape[1]):
        C += A[:, p] @ B[p]
    return C
