# replaces: code-tiles
# caught by: check-tiles
# says: go around load


def tiled_matmul(A, B, C, tile):
    product = A.matrix @ B.matrix
    for i in range(0, C.shape[0], tile):
        for j in range(0, C.shape[1], tile):
            rows, columns = slice(i, i + tile), slice(j, j + tile)
            C.store(rows, columns, product[rows, columns])
