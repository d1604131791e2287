# replaces: code-loops
# caught by: check-loops
# says: an index may fit by chance


def loops_matmul(A, B):
    m, k, n = len(A), len(A[0]), len(B[0])
    return [[sum(A[i][p] * B[p][j] for p in range(k)) for j in range(n)] for i in range(m)]
