# replaces: code-outer
# caught by: check-outer
# says: the result sums the layers


def outer_matmul(A, B):
    for p in range(A.shape[1]):
        product = A[:, p, None] * B[p]
    return product
