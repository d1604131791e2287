# replaces: code-tiles
# caught by: check-tiles
# says: start each sum from 0


def tiled_matmul(A, B, C, tile):
    (m, k), n = A.shape, B.shape[1]
    for i in range(0, m, tile):
        total = 0
        for j in range(0, n, tile):
            for p in range(0, k, tile):
                inner = slice(p, p + tile)
                total = total + A.load(slice(i, i + tile), inner) @ B.load(inner, slice(j, j + tile))
            C.store(slice(i, i + tile), slice(j, j + tile), total)
