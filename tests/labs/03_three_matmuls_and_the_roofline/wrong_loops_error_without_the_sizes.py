# replaces: code-loops
# caught by: check-loops
# says: name both in a ValueError


def loops_matmul(A, B):
    if len(A[0]) != len(B):
        raise ValueError("shapes do not fit")
    return [[sum(a * b for a, b in zip(row, column)) for column in zip(*B)] for row in A]
