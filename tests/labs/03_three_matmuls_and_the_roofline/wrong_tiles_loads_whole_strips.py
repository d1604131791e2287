# replaces: code-tiles
# caught by: check-tiles
# says: does not fit through: at most 2 × 2
# says: along k too


def tiled_matmul(A, B, C, tile):
    (m, k), n = A.shape, B.shape[1]
    for i in range(0, m, tile):
        for j in range(0, n, tile):
            rows, columns = slice(i, i + tile), slice(j, j + tile)
            C.store(rows, columns, A.load(rows, slice(0, k)) @ B.load(slice(0, k), columns))
