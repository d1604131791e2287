# replaces: code-outer
# caught by: check-outer
# says: let p be the only loop


def outer_matmul(A, B):
    product = np.empty((A.shape[0], B.shape[1]), dtype=A.dtype)
    for i in range(A.shape[0]):
        for j in range(B.shape[1]):
            product[i, j] = np.dot(A[i], B[:, j])
    return product
