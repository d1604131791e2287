# replaces: code-tiles


def pieces(size, tile):
    return [slice(start, min(size, start + tile)) for start in reversed(range(0, size, tile))]


def tiled_matmul(A, B, C, tile):
    for columns in pieces(C.shape[1], tile):
        for rows in pieces(C.shape[0], tile):
            C.store(rows, columns, sum(A.load(rows, p) @ B.load(p, columns) for p in pieces(A.shape[1], tile)))
