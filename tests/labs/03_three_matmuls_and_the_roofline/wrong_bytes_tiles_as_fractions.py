# replaces: code-bytes
# caught by: check-bytes
# says: round up, to a whole number


def product_flops(m, k, n):
    return 2 * m * k * n


def tiled_bytes(m, k, n, tile, itemsize):
    return itemsize * (m * k * max(1, n / tile) + k * n * max(1, m / tile) + m * n)


def outer_bytes(m, k, n, itemsize):
    return itemsize * k * (m + n + 4 * m * n)
