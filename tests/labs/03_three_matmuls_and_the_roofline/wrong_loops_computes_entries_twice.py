# replaces: code-loops
# caught by: check-loops
# says: one multiplication for each i, j and p


def loops_matmul(A, B):
    if len(A[0]) != len(B):
        raise ValueError(f"{len(A[0])} and {len(B)}")
    C = []
    for row in A:
        for p in range(len(B)):
            line = [sum(a * b for a, b in zip(row, column)) for column in zip(*B)]
        C.append(line)
    return C
