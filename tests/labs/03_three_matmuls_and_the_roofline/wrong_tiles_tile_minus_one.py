# replaces: code-tiles
# caught by: check-tiles
# says: the tiles are smaller than they may be


def tiled_matmul(A, B, C, tile):
    (m, k), n = A.shape, B.shape[1]
    step = max(1, tile - 1)
    for i in range(0, m, step):
        for j in range(0, n, step):
            total = 0
            for p in range(0, k, step):
                total = total + A.load(slice(i, i + step), slice(p, p + step)) @ B.load(slice(p, p + step), slice(j, j + step))
            C.store(slice(i, i + step), slice(j, j + step), total)
