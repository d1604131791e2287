# replaces: code-outer
# caught by: check-outer
# says: A and B belong to the caller


def outer_matmul(A, B):
    product = np.zeros((A.shape[0], B.shape[1]), dtype=A.dtype)
    if len(A) == 1:
        B *= A.T
        return B.sum(axis=0, keepdims=True, dtype=A.dtype)
    for p in range(A.shape[1]):
        product += A[:, p, None] * B[p]
    return product
