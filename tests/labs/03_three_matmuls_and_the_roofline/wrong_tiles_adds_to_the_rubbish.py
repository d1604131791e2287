# replaces: code-tiles
# caught by: check-tiles
# says: start each sum from 0


def tiled_matmul(A, B, C, tile):
    (m, k), n = A.shape, B.shape[1]
    for i in range(0, m, tile):
        for j in range(0, n, tile):
            rows, columns = slice(i, i + tile), slice(j, j + tile)
            total = C.load(rows, columns)
            for p in range(0, k, tile):
                total += A.load(rows, slice(p, p + tile)) @ B.load(slice(p, p + tile), columns)
            C.store(rows, columns, total)
