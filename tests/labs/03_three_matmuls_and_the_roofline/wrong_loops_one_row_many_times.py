# replaces: code-loops
# caught by: check-loops
# says: each list of the result a new one


def loops_matmul(A, B):
    m, k, n = len(A), len(B), len(B[0])
    if len(A[0]) != k:
        raise ValueError(f"{len(A[0])} and {k}")
    C = [[0] * n] * m
    for i in range(m):
        for j in range(n):
            for p in range(k):
                C[i][j] = A[i][p] * B[p][j] + (C[i][j] if p else 0)
    return C
