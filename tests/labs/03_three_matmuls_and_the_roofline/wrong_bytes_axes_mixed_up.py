# replaces: code-bytes
# caught by: check-bytes
# says: A is m × k and loaded once for each tile along n


def product_flops(m, k, n):
    return 2 * m * k * n


def tiled_bytes(m, k, n, tile, itemsize):
    return itemsize * (m * k * -(-m // tile) + k * n * -(-n // tile) + m * n)


def outer_bytes(m, k, n, itemsize):
    return itemsize * k * (m + n + 4 * m * n)
