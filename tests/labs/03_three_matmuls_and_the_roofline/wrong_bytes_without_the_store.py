# replaces: code-bytes
# caught by: check-bytes
# says: and C once


def product_flops(m, k, n):
    return 2 * m * k * n


def tiled_bytes(m, k, n, tile, itemsize):
    return itemsize * (m * k * -(-n // tile) + k * n * -(-m // tile))


def outer_bytes(m, k, n, itemsize):
    return itemsize * k * (m + n + 4 * m * n)
