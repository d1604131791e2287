# replaces: code-loops


def loops_matmul(A, B):
    if len({len(row) for row in A} | {len(B)}) != 1:
        raise ValueError(f"the rows of A have {len(A[0])} numbers, and B has {len(B)} rows")
    C = [[0.0] * len(B[0]) for _ in A]
    for p, row in enumerate(B):
        for i in range(len(A)):
            for j, b in enumerate(row):
                C[i][j] = C[i][j] + A[i][p] * b
    return C
