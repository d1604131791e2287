# replaces: code-bytes
# caught by: check-bytes
# says: [320, 576, 192]


def product_flops(m, k, n):
    return 2 * m * k * n


def tiled_bytes(m, k, n, tile, itemsize):
    return m * k * -(-n // tile) + k * n * -(-m // tile) + m * n


def outer_bytes(m, k, n, itemsize):
    return k * (m + n + 4 * m * n)
