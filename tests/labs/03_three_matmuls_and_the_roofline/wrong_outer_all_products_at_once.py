# replaces: code-outer
# caught by: check-outer
# says: add up one layer (m, n) at a time


def outer_matmul(A, B):
    return (A[:, :, None] * B[None]).sum(axis=1, dtype=A.dtype)
