# replaces: code-tiles
# caught by: check-tiles
# says: ['C']
# says: in the dtype of the matrices


def tiled_matmul(A, B, C, tile):
    (m, k), n = A.shape, B.shape[1]
    for i, j in itertools.product(range(0, m, tile), range(0, n, tile)):
        rows, columns = slice(i, i + tile), slice(j, j + tile)
        total = torch.zeros(min(tile, m - i), min(tile, n - j))
        for p in range(0, k, tile):
            total += A.load(rows, slice(p, p + tile)) @ B.load(slice(p, p + tile), columns)
        C.store(rows, columns, total)
