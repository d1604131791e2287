# replaces: code-outer
# caught by: check-outer
# says: let p be the only loop


def outer_matmul(A, B):
    return np.stack([(row[:, None] * B).sum(axis=0, dtype=A.dtype) for row in A])
