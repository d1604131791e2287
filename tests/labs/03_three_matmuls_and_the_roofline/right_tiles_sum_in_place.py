# replaces: code-tiles


def tiled_matmul(A, B, C, tile):
    (m, k), n = A.shape, B.shape[1]
    for j in range(math.ceil(n / tile)):
        for i in range(math.ceil(m / tile)):
            rows, columns = slice(i * tile, min(m, i * tile + tile)), slice(j * tile, min(n, j * tile + tile))
            total = A.matrix.new_zeros(rows.stop - rows.start, columns.stop - columns.start)
            for p in range(0, k, tile):
                total.addmm_(A.load(rows, slice(p, p + tile)), B.load(slice(p, p + tile), columns))
            C.store(rows, columns, total)
