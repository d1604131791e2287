# replaces: code-outer
# caught by: check-outer
# says: give it the dtype of A


def outer_matmul(A, B):
    product = np.zeros((A.shape[0], B.shape[1]))
    for p in range(A.shape[1]):
        product += np.outer(A[:, p], B[p])
    return product
