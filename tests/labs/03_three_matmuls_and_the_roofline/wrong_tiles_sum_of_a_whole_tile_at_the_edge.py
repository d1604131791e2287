# replaces: code-tiles
# caught by: check-tiles
# says: a piece of (2, 2) for a place of (2, 1)
# says: a tile of C is smaller


def tiled_matmul(A, B, C, tile):
    (m, k), n = A.shape, B.shape[1]
    for i, j in itertools.product(range(0, m, tile), range(0, n, tile)):
        rows, columns = slice(i, i + tile), slice(j, j + tile)
        total = torch.zeros(tile, tile, dtype=torch.float64)
        for p in range(0, k, tile):
            total += A.load(rows, slice(p, p + tile)) @ B.load(slice(p, p + tile), columns)
        C.store(rows, columns, total)
