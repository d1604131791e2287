# replaces: code-loops
# caught by: check-loops
# says: entry (i, j) is row i of A against column j of B


def loops_matmul(A, B):
    if len(A[0]) != len(B):
        raise ValueError(f"{len(A[0])} and {len(B)}")
    return [[sum(a * b for a, b in zip(row, other)) for other in B] for row in A]
