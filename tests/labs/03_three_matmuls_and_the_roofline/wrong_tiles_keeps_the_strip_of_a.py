# replaces: code-tiles
# caught by: check-tiles
# says: you keep tiles for which there is no room


def tiled_matmul(A, B, C, tile):
    (m, k), n = A.shape, B.shape[1]
    for i in range(0, m, tile):
        rows = slice(i, i + tile)
        strip = [A.load(rows, slice(p, p + tile)) for p in range(0, k, tile)]
        for j in range(0, n, tile):
            columns = slice(j, j + tile)
            C.store(rows, columns, sum(s @ B.load(slice(p, p + tile), columns) for s, p in zip(strip, range(0, k, tile))))
