# replaces: code-bytes
# caught by: check-bytes
# says: 2mkn


def product_flops(m, k, n):
    return m * k * n


def tiled_bytes(m, k, n, tile, itemsize):
    return itemsize * (m * k * -(-n // tile) + k * n * -(-m // tile) + m * n)


def outer_bytes(m, k, n, itemsize):
    return itemsize * k * (m + n + 4 * m * n)
