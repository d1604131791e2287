# replaces: code-loops
# caught by: check-loops
# says: a zip is empty after one walk


def loops_matmul(A, B):
    if len(A[0]) != len(B):
        raise ValueError(f"{len(A[0])} and {len(B)}")
    columns = zip(*B)
    return [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in A]
