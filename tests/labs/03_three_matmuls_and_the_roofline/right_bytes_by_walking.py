# replaces: code-bytes


def product_flops(m, k, n):
    return (m + m) * k * n


def tiled_bytes(m, k, n, tile, itemsize):
    numbers = m * n
    for i in range(0, m, tile):
        for j in range(0, n, tile):
            for p in range(0, k, tile):
                numbers += min(tile, k - p) * (min(tile, m - i) + min(tile, n - j))
    return numbers * itemsize


def outer_bytes(m, k, n, itemsize):
    layer = np.empty((m, n), dtype=np.uint8).nbytes
    return sum((m + n + layer) + 3 * layer for _ in range(k)) * itemsize
