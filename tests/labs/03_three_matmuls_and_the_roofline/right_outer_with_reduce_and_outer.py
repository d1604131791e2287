# replaces: code-outer


import functools


def outer_matmul(A, B):
    return functools.reduce(np.add, (np.multiply.outer(column, row) for column, row in zip(A.T, B)))
