# replaces: code-tiles
# caught by: check-tiles
# says: C is never loaded


def tiled_matmul(A, B, C, tile):
    (m, k), n = A.shape, B.shape[1]
    for p in range(0, k, tile):
        for i in range(0, m, tile):
            for j in range(0, n, tile):
                place = slice(i, i + tile), slice(j, j + tile)
                product = A.load(place[0], slice(p, p + tile)) @ B.load(slice(p, p + tile), place[1])
                C.store(*place, product if p == 0 else C.load(*place) + product)
