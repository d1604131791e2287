# replaces: code-tiles
# caught by: check-tiles
# says: ragged ones too


def tiled_matmul(A, B, C, tile):
    (m, k), n = A.shape, B.shape[1]
    for i in range(m // tile):
        for j in range(n // tile):
            rows, columns = slice(i * tile, (i + 1) * tile), slice(j * tile, (j + 1) * tile)
            total = 0
            for p in range(k // tile):
                inner = slice(p * tile, (p + 1) * tile)
                total = total + A.load(rows, inner) @ B.load(inner, columns)
            C.store(rows, columns, total)
