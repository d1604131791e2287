# replaces: code-outer
# caught by: check-outer
# says: layer p is column p of A


def outer_matmul(A, B):
    product = np.zeros((A.shape[0], B.shape[1]), dtype=A.dtype)
    for p in range(A.shape[1]):
        product += np.outer(B[p], A[:, p]).reshape(product.shape)
    return product
