# replaces: code-bytes
# caught by: check-bytes
# says: a ragged tile is a tile


def product_flops(m, k, n):
    return 2 * m * k * n


def tiled_bytes(m, k, n, tile, itemsize):
    return itemsize * tile * tile * (2 * -(-m // tile) * -(-n // tile) * -(-k // tile) + -(-m // tile) * -(-n // tile))


def outer_bytes(m, k, n, itemsize):
    return itemsize * k * (m + n + 4 * m * n)
