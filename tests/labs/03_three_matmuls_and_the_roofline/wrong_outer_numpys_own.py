# replaces: code-outer
# caught by: check-outer
# says: write the sum of k layers out


def outer_matmul(A, B):
    return A @ B
