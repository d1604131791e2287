# replaces: code-loops


import functools
import operator


def loops_matmul(A, B):
    if len(A[0]) != len(B):
        raise ValueError(f"({len(A)}, {len(A[0])}) times ({len(B)}, {len(B[0])})")

    def entry(row, j):
        return functools.reduce(operator.add, map(operator.mul, row, [line[j] for line in B]))

    return [[entry(row, j) for j in range(len(B[0]))] for row in A]
