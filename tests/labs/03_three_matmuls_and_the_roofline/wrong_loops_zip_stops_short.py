# replaces: code-loops
# caught by: check-loops
# says: compare len(A[0]) with len(B) first


def loops_matmul(A, B):
    columns = list(zip(*B))
    return [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in A]
