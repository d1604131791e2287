"""Lab 03 · Three matmuls and the roofline: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("03_three_matmuls_and_the_roofline")


# Task 1 · The first matmul: loops

wrong, right = LAB.task("loops")

wrong(
    "NumPy inside",
    """
    def loops_matmul(A, B):
        if len(A[0]) != len(B):
            raise ValueError(f"{len(A[0])} against {len(B)}")
        return (np.array(A) @ np.array(B)).tolist()
    """,
    says=["a product made of lists alone", "no NumPy here"],
)

wrong(
    "by index without a look",
    """
    def loops_matmul(A, B):
        m, k, n = len(A), len(A[0]), len(B[0])
        return [[sum(A[i][p] * B[p][j] for p in range(k)) for j in range(n)] for i in range(m)]
    """,
    says=["an index may fit by chance"],
)
wrong(
    "columns walked once",
    """
    def loops_matmul(A, B):
        if len(A[0]) != len(B):
            raise ValueError(f"{len(A[0])} and {len(B)}")
        columns = zip(*B)
        return [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in A]
    """,
    says=["a zip is empty after one walk"],
)
wrong(
    "computes entries twice",
    """
    def loops_matmul(A, B):
        if len(A[0]) != len(B):
            raise ValueError(f"{len(A[0])} and {len(B)}")
        C = []
        for row in A:
            for p in range(len(B)):
                line = [sum(a * b for a, b in zip(row, column)) for column in zip(*B)]
            C.append(line)
        return C
    """,
    says=["one multiplication for each i, j and p"],
)
wrong(
    "error without the sizes",
    """
    def loops_matmul(A, B):
        if len(A[0]) != len(B):
            raise ValueError("shapes do not fit")
        return [[sum(a * b for a, b in zip(row, column)) for column in zip(*B)] for row in A]
    """,
    says=["name both in a ValueError"],
)
wrong(
    "one row many times",
    """
    def loops_matmul(A, B):
        m, k, n = len(A), len(B), len(B[0])
        if len(A[0]) != k:
            raise ValueError(f"{len(A[0])} and {k}")
        C = [[0] * n] * m
        for i in range(m):
            for j in range(n):
                for p in range(k):
                    C[i][j] = A[i][p] * B[p][j] + (C[i][j] if p else 0)
        return C
    """,
    says=["each list of the result a new one"],
)
wrong(
    "rows against rows",
    """
    def loops_matmul(A, B):
        if len(A[0]) != len(B):
            raise ValueError(f"{len(A[0])} and {len(B)}")
        return [[sum(a * b for a, b in zip(row, other)) for other in B] for row in A]
    """,
    says=["entry (i, j) is row i of A against column j of B"],
)
wrong(
    "zip stops short",
    """
    def loops_matmul(A, B):
        columns = list(zip(*B))
        return [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in A]
    """,
    says=["compare len(A[0]) with len(B) first"],
)
right(
    "p outermost",
    """
    def loops_matmul(A, B):
        if len({len(row) for row in A} | {len(B)}) != 1:
            raise ValueError(f"the rows of A have {len(A[0])} numbers, and B has {len(B)} rows")
        C = [[0.0] * len(B[0]) for _ in A]
        for p, row in enumerate(B):
            for i in range(len(A)):
                for j, b in enumerate(row):
                    C[i][j] = C[i][j] + A[i][p] * b
        return C
    """,
)
right(
    "with reduce",
    """
    import functools
    import operator


    def loops_matmul(A, B):
        if len(A[0]) != len(B):
            raise ValueError(f"({len(A)}, {len(A[0])}) times ({len(B)}, {len(B[0])})")

        def entry(row, j):
            return functools.reduce(operator.add, map(operator.mul, row, [line[j] for line in B]))

        return [[entry(row, j) for j in range(len(B[0]))] for row in A]
    """,
)

# Task 2 · The second matmul: outer products

wrong, right = LAB.task("outer")

wrong(
    "all products at once",
    """
    def outer_matmul(A, B):
        return (A[:, :, None] * B[None]).sum(axis=1, dtype=A.dtype)
    """,
    says=["add up one layer (m, n) at a time"],
)
wrong(
    "einsum",
    """
    def outer_matmul(A, B):
        return np.einsum("ip,pj->ij", A, B)
    """,
    says=["write the sum of k layers out"],
)
wrong(
    "entry by entry",
    """
    def outer_matmul(A, B):
        product = np.empty((A.shape[0], B.shape[1]), dtype=A.dtype)
        for i in range(A.shape[0]):
            for j in range(B.shape[1]):
                product[i, j] = np.dot(A[i], B[:, j])
        return product
    """,
    says=["let p be the only loop"],
)
wrong(
    "keeps the last layer",
    """
    def outer_matmul(A, B):
        for p in range(A.shape[1]):
            product = A[:, p, None] * B[p]
        return product
    """,
    says=["the result sums the layers"],
)
wrong(
    "numpys own",
    """
    def outer_matmul(A, B):
        return A @ B
    """,
    says=["write the sum of k layers out"],
)
wrong(
    "row and column swapped",
    ("A[:, p, None] * B[p]", "np.outer(B[p], A[:, p]).reshape(product.shape)"),
    says=["layer p is column p of A"],
)
wrong(
    "row by row",
    """
    def outer_matmul(A, B):
        return np.stack([(row[:, None] * B).sum(axis=0, dtype=A.dtype) for row in A])
    """,
    says=["let p be the only loop"],
)
wrong(
    "scales b in place",
    (
        "for p in range(A.shape[1]):",
        """
        if len(A) == 1:
            B *= A.T
            return B.sum(axis=0, keepdims=True, dtype=A.dtype)
        for p in range(A.shape[1]):
        """,
    ),
    says=["A and B belong to the caller"],
)
wrong(
    "thin matmul of vectors",
    """
    def outer_matmul(A, B):
        C = np.zeros((A.shape[0], B.shape[1]), dtype=A.dtype)
        for p in range(A.shape[1]):
            C += A[:, p] @ B[p]
        return C
    """,
    says=["ValueError: matmul", "shape (m, 1)"],
)
wrong(
    "zeros in float64",
    """
    def outer_matmul(A, B):
        product = np.zeros((A.shape[0], B.shape[1]))
        for p in range(A.shape[1]):
            product += np.outer(A[:, p], B[p])
        return product
    """,
    says=["give it the dtype of A"],
)
right(
    "as thin products",
    """
    def outer_matmul(A, B):
        layers = (A[:, p : p + 1] @ B[p : p + 1, :] for p in range(A.shape[1]))
        return sum(layers, start=np.zeros((len(A), B.shape[1]), dtype=A.dtype))
    """,
)
right(
    "with reduce and outer",
    """
    import functools


    def outer_matmul(A, B):
        return functools.reduce(np.add, (np.multiply.outer(column, row) for column, row in zip(A.T, B)))
    """,
)

wrong(
    "a list of all layers",
    """
    def outer_matmul(A, B):
        return np.sum([np.outer(A[:, p], B[p]) for p in range(A.shape[1])], axis=0)
    """,
    says=["add each layer to the sum before you make the next"],
)
wrong(
    "as plain arrays",
    ("product = np", "A, B = np.asarray(A), np.asarray(B)\nproduct = np"),
    says=["nothing was noted", "use A and B as they come"],
)
wrong(
    "the whole product k times",
    ("product += A[:, p, None] * B[p]", "product = A @ B"),
    says=["A @ B, np.dot and np.einsum"],
)
wrong(
    "the whole product beside the layers",
    ("return product", "return np.asarray(A) @ np.asarray(B)"),
    says=["A @ B, np.dot and np.einsum"],
)
right("products of slices", ("A[:, p, None] * B[p]", "A[:, p : p + 1] @ B[p : p + 1]"))

# Task 3 · The third matmul: tiles

wrong, right = LAB.task("tiles")

wrong(
    "adds to the rubbish",
    """
    def tiled_matmul(A, B, C, tile):
        (m, k), n = A.shape, B.shape[1]
        for i in range(0, m, tile):
            for j in range(0, n, tile):
                rows, columns = slice(i, i + tile), slice(j, j + tile)
                total = C.load(rows, columns)
                for p in range(0, k, tile):
                    total += A.load(rows, slice(p, p + tile)) @ B.load(slice(p, p + tile), columns)
                C.store(rows, columns, total)
    """,
    says=["start each sum from 0"],
)
wrong(
    "elementwise",
    """
    def tiled_matmul(A, B, C, tile):
        (m, k), n = A.shape, B.shape[1]
        for i in range(0, m, tile):
            for j in range(0, n, tile):
                total = 0
                for p in range(0, k, tile):
                    inner = slice(p, p + tile)
                    total = total + A.load(slice(i, i + tile), inner) * B.load(inner, slice(j, j + tile))
                C.store(slice(i, i + tile), slice(j, j + tile), total)
    """,
    says=["tiles meet with @"],
)
wrong(
    "forgets the ragged ones",
    """
    def tiled_matmul(A, B, C, tile):
        (m, k), n = A.shape, B.shape[1]
        for i in range(m // tile):
            for j in range(n // tile):
                rows, columns = slice(i * tile, (i + 1) * tile), slice(j * tile, (j + 1) * tile)
                total = 0
                for p in range(k // tile):
                    inner = slice(p * tile, (p + 1) * tile)
                    total = total + A.load(rows, inner) @ B.load(inner, columns)
                C.store(rows, columns, total)
    """,
    says=["ragged ones too"],
)
wrong(
    "goes around load",
    """
    def tiled_matmul(A, B, C, tile):
        product = A.matrix @ B.matrix
        for i in range(0, C.shape[0], tile):
            for j in range(0, C.shape[1], tile):
                rows, columns = slice(i, i + tile), slice(j, j + tile)
                C.store(rows, columns, product[rows, columns])
    """,
    says=["go around load"],
)
wrong(
    "k is not innermost",
    """
    def tiled_matmul(A, B, C, tile):
        (m, k), n = A.shape, B.shape[1]
        for p in range(0, k, tile):
            for i in range(0, m, tile):
                for j in range(0, n, tile):
                    place = slice(i, i + tile), slice(j, j + tile)
                    product = A.load(place[0], slice(p, p + tile)) @ B.load(slice(p, p + tile), place[1])
                    C.store(*place, product if p == 0 else C.load(*place) + product)
    """,
    says=["C is never loaded"],
)
wrong(
    "keeps the strip of a",
    """
    def tiled_matmul(A, B, C, tile):
        (m, k), n = A.shape, B.shape[1]
        for i in range(0, m, tile):
            rows = slice(i, i + tile)
            strip = [A.load(rows, slice(p, p + tile)) for p in range(0, k, tile)]
            for j in range(0, n, tile):
                columns = slice(j, j + tile)
                C.store(
                    rows,
                    columns,
                    sum(s @ B.load(slice(p, p + tile), columns) for s, p in zip(strip, range(0, k, tile))),
                )
    """,
    says=["you keep tiles for which there is no room"],
)
wrong(
    "loads whole strips",
    """
    def tiled_matmul(A, B, C, tile):
        (m, k), n = A.shape, B.shape[1]
        for i in range(0, m, tile):
            for j in range(0, n, tile):
                rows, columns = slice(i, i + tile), slice(j, j + tile)
                C.store(rows, columns, A.load(rows, slice(0, k)) @ B.load(slice(0, k), columns))
    """,
    says=["does not fit through: at most 2 × 2", "along k too"],
)
wrong(
    "stores every partial sum",
    """
    def tiled_matmul(A, B, C, tile):
        (m, k), n = A.shape, B.shape[1]
        for i in range(0, m, tile):
            for j in range(0, n, tile):
                total = 0
                for p in range(0, k, tile):
                    inner = slice(p, p + tile)
                    total = total + A.load(slice(i, i + tile), inner) @ B.load(inner, slice(j, j + tile))
                    C.store(slice(i, i + tile), slice(j, j + tile), total)
    """,
    says=["stored exactly once"],
)
wrong(
    "sum in float32",
    ("total = 0", "total = torch.zeros(min(tile, m - i), min(tile, n - j))"),
    (
        """
        inner = slice(p, p + tile)
        total = total + A.load(rows, inner) @ B.load(inner, columns)
        """,
        "total += A.load(rows, slice(p, p + tile)) @ B.load(slice(p, p + tile), columns)",
    ),
    says=["['C']", "in the dtype of the matrices"],
)
wrong(
    "sum not reset",
    """
    def tiled_matmul(A, B, C, tile):
        (m, k), n = A.shape, B.shape[1]
        for i in range(0, m, tile):
            total = 0
            for j in range(0, n, tile):
                for p in range(0, k, tile):
                    inner = slice(p, p + tile)
                    total = total + A.load(slice(i, i + tile), inner) @ B.load(inner, slice(j, j + tile))
                C.store(slice(i, i + tile), slice(j, j + tile), total)
    """,
    says=["start each sum from 0"],
)
wrong(
    "sum of a whole tile at the edge",
    ("total = 0", "total = torch.zeros(tile, tile, dtype=torch.float64)"),
    (
        """
        inner = slice(p, p + tile)
        total = total + A.load(rows, inner) @ B.load(inner, columns)
        """,
        "total += A.load(rows, slice(p, p + tile)) @ B.load(slice(p, p + tile), columns)",
    ),
    says=["a piece of (2, 2) for a place of (2, 1)", "a tile of C is smaller"],
)
wrong(
    "tile minus one",
    """
    def tiled_matmul(A, B, C, tile):
        (m, k), n = A.shape, B.shape[1]
        step = max(1, tile - 1)
        for i in range(0, m, step):
            for j in range(0, n, step):
                total = 0
                for p in range(0, k, step):
                    total = total + A.load(slice(i, i + step), slice(p, p + step)) @ B.load(
                        slice(p, p + step), slice(j, j + step)
                    )
                C.store(slice(i, i + step), slice(j, j + step), total)
    """,
    says=["the tiles are smaller than they may be"],
)
right(
    "columns first backwards",
    """
    def pieces(size, tile):
        return [slice(start, min(size, start + tile)) for start in reversed(range(0, size, tile))]


    def tiled_matmul(A, B, C, tile):
        for columns in pieces(C.shape[1], tile):
            for rows in pieces(C.shape[0], tile):
                C.store(rows, columns, sum(A.load(rows, p) @ B.load(p, columns) for p in pieces(A.shape[1], tile)))
    """,
)
right(
    "sum in place",
    """
    def tiled_matmul(A, B, C, tile):
        (m, k), n = A.shape, B.shape[1]
        for j in range(math.ceil(n / tile)):
            for i in range(math.ceil(m / tile)):
                rows, columns = slice(i * tile, min(m, i * tile + tile)), slice(j * tile, min(n, j * tile + tile))
                total = A.matrix.new_zeros(rows.stop - rows.start, columns.stop - columns.start)
                for p in range(0, k, tile):
                    total.addmm_(A.load(rows, slice(p, p + tile)), B.load(slice(p, p + tile), columns))
                C.store(rows, columns, total)
    """,
)

wrong(
    "strips out of tiles",
    """
    def tiled_matmul(A, B, C, tile):
        (m, k), n = A.shape, B.shape[1]
        inner = [slice(p, p + tile) for p in range(0, k, tile)]
        for i, j in itertools.product(range(0, m, tile), range(0, n, tile)):
            rows, columns = slice(i, i + tile), slice(j, j + tile)
            strip = torch.cat([A.load(rows, p) for p in inner], 1)
            C.store(rows, columns, strip @ torch.cat([B.load(p, columns) for p in inner]))
    """,
    says=["one of A, one of B, and the sum"],
)
wrong(
    "a list of products",
    """
    def tiled_matmul(A, B, C, tile):
        (m, k), n = A.shape, B.shape[1]
        inner = [slice(p, p + tile) for p in range(0, k, tile)]
        for i, j in itertools.product(range(0, m, tile), range(0, n, tile)):
            rows, columns = slice(i, i + tile), slice(j, j + tile)
            C.store(rows, columns, sum([A.load(rows, p) @ B.load(p, columns) for p in inner]))
    """,
    says=["one of A, one of B, and the sum"],
)
wrong(
    "writes the books itself",
    """
    def tiled_matmul(A, B, C, tile):
        C.matrix.copy_(A.matrix @ B.matrix)
        (m, k), n = A.shape, B.shape[1]
        size = A.matrix.element_size()
        A.read, B.read, C.written = size * m * k * -(-n // tile), size * k * n * -(-m // tile), size * m * n
    """,
    says=["if you go around load"],
)
wrong(
    "loads for the books alone",
    ("total = total + A.load(rows, inner) @ B.load(inner, columns)", "A.load(rows, inner), B.load(inner, columns)"),
    ("C.store(rows, columns, total)", "C.store(rows, columns, (A.matrix @ B.matrix)[rows, columns])"),
    says=["if you go around load"],
)

# Task 4 · What they do and what they move

wrong, right = LAB.task("bytes")

wrong(
    "axes mixed up",
    (
        """
        wide, high = math.ceil(n / tile), math.ceil(m / tile)
        return itemsize * (m * k * wide + k * n * high + m * n)
        """,
        "return itemsize * (m * k * -(-m // tile) + k * n * -(-n // tile) + m * n)",
    ),
    says=["A is m × k and loaded once for each tile along n"],
)
wrong(
    "numbers not bytes",
    """
    def product_flops(m, k, n):
        return 2 * m * k * n


    def tiled_bytes(m, k, n, tile, itemsize):
        return m * k * -(-n // tile) + k * n * -(-m // tile) + m * n


    def outer_bytes(m, k, n, itemsize):
        return k * (m + n + 4 * m * n)
    """,
    says=["[320, 576, 192]"],
)
wrong(
    "tiles as fractions",
    (
        """
        wide, high = math.ceil(n / tile), math.ceil(m / tile)
        return itemsize * (m * k * wide + k * n * high + m * n)
        """,
        "return itemsize * (m * k * max(1, n / tile) + k * n * max(1, m / tile) + m * n)",
    ),
    says=["round up, to a whole number"],
)
wrong(
    "tiles rounded down",
    (
        """
        wide, high = math.ceil(n / tile), math.ceil(m / tile)
        return itemsize * (m * k * wide + k * n * high + m * n)
        """,
        "return itemsize * (m * k * max(1, n // tile) + k * n * max(1, m // tile) + m * n)",
    ),
    says=["round up"],
)
wrong(
    "whole tiles at the edges",
    (
        """
        wide, high = math.ceil(n / tile), math.ceil(m / tile)
        return itemsize * (m * k * wide + k * n * high + m * n)
        """,
        """
        return (
            itemsize
            * tile
            * tile
            * (2 * -(-m // tile) * -(-n // tile) * -(-k // tile) + -(-m // tile) * -(-n // tile))
        )
        """,
    ),
    says=["a ragged tile is a tile"],
)
wrong(
    "without the store",
    (
        """
        wide, high = math.ceil(n / tile), math.ceil(m / tile)
        return itemsize * (m * k * wide + k * n * high + m * n)
        """,
        "return itemsize * (m * k * -(-n // tile) + k * n * -(-m // tile))",
    ),
    says=["and C once"],
)
right(
    "by walking",
    """
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
    """,
)

another_way = """
def product_flops(m, k, n):
    return 2 * m * k * n


def tiled_bytes(m, k, n, tile, itemsize):
    return itemsize * (m * k * -(-n // tile) + k * n * -(-m // tile) + m * n)


def outer_bytes(m, k, n, itemsize):
    return itemsize * k * (m + n + 4 * m * n)
"""

wrong("flops exact to the addition", ("2 * m * k * n", "m * n * (2 * k - 1)"), of=another_way, says=["2mkn"])
wrong("flops mkn", ("2 * m * k", "m * k"), of=another_way, says=["2mkn"])
wrong("outer no layer in between", ("4 * m * n", "2 * m * n"), of=another_way, says=["then 3 · 16"])
wrong(
    "outer result written once",
    ("itemsize * k * (m + n + 4 * m * n)", "itemsize * (k * (m + n) + m * n)"),
    of=another_way,
    says=["four layers"],
)

wrong(
    "tiles rounded up to floats",
    ("-(-n // tile)", "np.ceil(n / tile)"),
    ("-(-m // tile)", "np.ceil(m / tile)"),
    of=another_way,
    says=["['int', 'float64', 'int']", "np.ceil give floats"],
)
wrong("flops of squares", ("2 * m * k * n", "2 * m * n * n"), of=another_way, says=["product_flops(5, 7, 3)", "2mkn"])

# Task 5 · The stopwatch

wrong, right = LAB.task("stopwatch")

wrong(
    "a clock of its own",
    ("start = clock()", "start = time.perf_counter()"),
    ("clock() - start", "time.perf_counter() - start"),
    says=["read the clock that you were given"],
)

wrong(
    "cold",
    ('f"{rounds} rounds: at least 1"', 'f"rounds = {rounds}"'),
    (
        """
        for program in programs.values():
            program()
        """,
        "",
    ),
    says=["call every program once before you measure any"],
)
wrong(
    "counts what was pending",
    ('f"{rounds} rounds: at least 1"', 'f"rounds = {rounds}"'),
    (
        """
        for name, program in programs.items():
            wait()
        """,
        "for name, program in programs.items():",
    ),
    says=["the work of others was counted too"],
)
wrong(
    "least",
    ('f"{rounds} rounds: at least 1"', 'f"rounds = {rounds}"'),
    ("median(times)", "min(times)"),
    says=["of an even number of rounds the mean of the two in the middle"],
)
wrong(
    "mean",
    ('f"{rounds} rounds: at least 1"', 'f"rounds = {rounds}"'),
    ("median(times)", "sum(times) / len(times)"),
    says=["of an even number of rounds the mean of the two in the middle"],
)
wrong(
    "one program after the other",
    """
    def stopwatch(programs, rounds, clock, wait):
        if rounds < 1:
            raise ValueError(f"rounds = {rounds}")
        result = {}
        for program in programs.values():
            program()
        for name, program in programs.items():
            times = []
            for _ in range(rounds):
                wait()
                start = clock()
                program()
                wait()
                times.append(clock() - start)
            result[name] = median(times)
        return result
    """,
    says=["the loop over the rounds is the outer one"],
)
wrong(
    "reads before the end",
    ('f"{rounds} rounds: at least 1"', 'f"rounds = {rounds}"'),
    ("program()\nwait()", "program()"),
    says=["the clock was read before the work was done"],
)
wrong(
    "takes no rounds",
    (
        """
        if rounds < 1:
            raise ValueError(f"{rounds} rounds: at least 1")
        """,
        "",
    ),
    ("median(times)", "sum(sorted(times)[i] for i in ((rounds - 1) // 2, rounds // 2)) / 2"),
    says=["raise ValueError with its value"],
)
wrong(
    "upper of the middle two",
    ('f"{rounds} rounds: at least 1"', 'f"rounds = {rounds}"'),
    ("median(times)", "sorted(times)[len(times) // 2]"),
    says=["of an even number of rounds the mean of the two in the middle"],
)
wrong(
    "waits after the clock",
    ('f"{rounds} rounds: at least 1"', 'f"rounds = {rounds}"'),
    (
        """
        wait()
        start = clock()
        """,
        """
        start = clock()
        wait()
        """,
    ),
    says=["the work of others was counted too"],
)
wrong(
    "warms only the first",
    ('f"{rounds} rounds: at least 1"', 'f"rounds = {rounds}"'),
    (
        """
        for program in programs.values():
            program()
        """,
        "next(iter(programs.values()))()",
    ),
    says=["call every program once before you measure any"],
)
right(
    "drops its first round",
    """
    def stopwatch(programs, rounds, clock, wait):
        if rounds < 1:
            raise ValueError(f"rounds = {rounds}")

        def once(program):
            wait()
            start = clock()
            program()
            wait()
            return clock() - start

        rows = [[once(program) for program in programs.values()] for _ in range(rounds + 1)]
        return {name: float(np.median(column)) for name, column in zip(programs, zip(*rows[1:]))}
    """,
)
right(
    "rotates and waits once more",
    """
    def stopwatch(programs, rounds, clock, wait):
        if rounds < 1:
            raise ValueError(f"rounds = {rounds}")
        names, seconds = list(programs), {name: [] for name in programs}
        for name in names * 3:
            programs[name]()
        wait()
        for turn in range(rounds):
            for place in range(len(names)):
                name = names[(turn + place) % len(names)]
                start = clock()
                programs[name]()
                wait()
                seconds[name].append(clock() - start)
        return {
            name: sum(sorted(times)[(rounds - 1) // 2 : rounds // 2 + 1]) / (2 - rounds % 2)
            for name, times in seconds.items()
        }
    """,
)

# Task 6 · The roof

wrong, right = LAB.task("roof")

wrong(
    "divides by a broken clock",
    """
    def measured_roof(work):
        return max(f / s for f, _, s in work.values()), max(b / s for _, b, s in work.values())


    def bound(flops, nbytes, peak, bandwidth):
        intensity, ridge = flops / nbytes, peak / bandwidth
        least = max(flops / peak, nbytes / bandwidth)
        return {
            "intensity": intensity,
            "ridge": ridge,
            "limit": "memory" if intensity < ridge else "arithmetic",
            "seconds": least,
        }
    """,
    says=["look at the seconds of every program first"],
)
wrong(
    "skips the broken one",
    """
    def measured_roof(work):
        good = [each for each in work.values() if each[2] > 0]
        return max(f / s for f, _, s in good), max(b / s for _, b, s in good)


    def bound(flops, nbytes, peak, bandwidth):
        intensity, ridge = flops / nbytes, peak / bandwidth
        least = max(flops / peak, nbytes / bandwidth)
        return {
            "intensity": intensity,
            "ridge": ridge,
            "limit": "memory" if intensity < ridge else "arithmetic",
            "seconds": least,
        }
    """,
    says=["ValueError with the program's name"],
)
right(
    "by the attainable rate",
    """
    def measured_roof(work):
        broken = [name for name, each in work.items() if not each[-1] > 0]
        if broken:
            raise ValueError("no time at all: " + ", ".join(broken))
        rates = np.array([[flops, nbytes] for flops, nbytes, _ in work.values()]) / np.array(
            [[s] for *_, s in work.values()]
        )
        return tuple(rates.max(axis=0))


    def bound(flops, nbytes, peak, bandwidth):
        intensity = flops / nbytes
        attainable = min(peak, intensity * bandwidth)
        limit = "arithmetic" if attainable == peak else "memory"
        return dict(limit=limit, seconds=flops / attainable, ridge=peak / bandwidth, intensity=intensity)
    """,
)

another_way = """
def measured_roof(work):
    for name, (_, _, seconds) in work.items():
        if seconds <= 0:
            raise ValueError(f"{name}: {seconds} seconds")
    return max(f / s for f, _, s in work.values()), max(b / s for _, b, s in work.values())


def bound(flops, nbytes, peak, bandwidth):
    intensity, ridge = flops / nbytes, peak / bandwidth
    limit = "memory" if intensity < ridge else "arithmetic"
    return {
        "intensity": intensity,
        "ridge": ridge,
        "limit": limit,
        "seconds": max(flops / peak, nbytes / bandwidth),
    }
"""

wrong(
    "adds the times",
    ("max(flops / peak, nbytes / bandwidth)", "flops / peak + nbytes / bandwidth"),
    of=another_way,
    says=["neither the sum nor the shorter one"],
)
wrong(
    "bandwidth from intensity",
    ("(b / s for _, b, s in work.values())", "(f / b for f, b, _ in work.values())"),
    of=another_way,
    says=["80 bytes/s by y"],
)
wrong("intensity upside down", ("flops / nbytes", "nbytes / flops"), of=another_way, says=["flops / nbytes"])
wrong(
    "memory on the ridge",
    ("intensity < ridge", "intensity <= ridge"),
    of=another_way,
    says=["on the ridge and right of it"],
)
wrong(
    "most flops not most per second",
    (
        "max(f / s for f, _, s in work.values()), max(b / s for _, b, s in work.values())",
        """
        (lambda a, b: (a[0] / a[2], b[1] / b[2]))(max(work.values()), max(work.values(), key=lambda w: w[1]))
        """,
    ),
    of=another_way,
    says=["divide by the seconds before you compare"],
)
wrong(
    "of the fastest program",
    (
        "max(f / s for f, _, s in work.values()), max(b / s for _, b, s in work.values())",
        "(lambda best: (best[0] / best[2], best[1] / best[2]))(max(work.values(), key=lambda w: w[0] / w[2]))",
    ),
    of=another_way,
    says=["Two maxima of rates"],
)
wrong(
    "other words",
    ('"memory" if intensity < ridge else "arithmetic"', '"bandwidth" if intensity < ridge else "compute"'),
    of=another_way,
    says=["No other words"],
)
wrong("ridge upside down", ("peak / bandwidth", "bandwidth / peak"), of=another_way, says=["peak / bandwidth"])
wrong(
    "seconds from the peak alone",
    ("max(flops / peak, nbytes / bandwidth)", "flops / peak"),
    of=another_way,
    says=["both happen at once"],
)
wrong(
    "shorter time",
    ("max(flops / peak, nbytes / bandwidth)", "min(flops / peak, nbytes / bandwidth)"),
    of=another_way,
    says=["neither the sum nor the shorter one"],
)
wrong("sides swapped", ("intensity < ridge", "intensity > ridge"), of=another_way, says=["left of the ridge"])

wrong(
    "a broken clock without a name",
    ('f"{name}: {seconds} seconds"', '"a broken clock"'),
    of=another_way,
    says=["expected: ValueError that names 'ham'"],
)
wrong(
    "names the last program",
    (
        """
        for name, (_, _, seconds) in work.items():
            if seconds <= 0:
                raise ValueError(f"{name}: {seconds} seconds")
        """,
        """
        for name in work:
            pass
        if min(seconds for _, _, seconds in work.values()) <= 0:
            raise ValueError(f"{name}: a broken clock")
        """,
    ),
    of=another_way,
    says=["expected: ValueError that names 'ham'"],
)

wrong(
    "names every program",
    ('f"{name}: {seconds} seconds"', 'f"a broken clock: {work}"'),
    of=another_way,
    says=["names 'ham', and no other program"],
)

# Task 7 · The write-up

wrong, right = LAB.task("writeup")

wrong(
    "one text",
    """
    def write_up(flops, nbytes, seconds, peak, bandwidth):
        slow, fast = max(seconds, key=seconds.get), min(seconds, key=seconds.get)
        return f"{slow} takes {seconds[slow] / seconds[fast]:.3g} times as long as {fast}."
    """,
    says=["return [speed, roof, gap]"],
)
right(
    "in other words",
    """
    def write_up(flops, nbytes, seconds, peak, bandwidth):
        by_time = sorted(seconds, key=seconds.get)
        by_bytes = sorted(nbytes, key=nbytes.get)
        gap, who = max((seconds[name] / max(flops / peak, nbytes[name] / bandwidth), name) for name in seconds)
        verdict = bound(flops, nbytes[by_bytes[-1]], peak, bandwidth)
        return (
            f"1. {by_time[-1]!r} is {seconds[by_time[-1]] / seconds[by_time[0]]:.3e} times slower than "
            f"{by_time[0]!r}, which nothing beats.",
            f"2. {verdict['limit'].capitalize()} limits {by_bytes[-1]}, at "
            f"{verdict['intensity']:,.6f} FLOPs/byte (ridge {verdict['ridge']:.2f}).",
            f"3. {who}: {gap:,.2f}× what its roof allows, and not a millisecond less.",
        )
    """,
)

right(
    "signs before the numbers",
    ("{seconds[slowest] / seconds[fastest]:,.4g} times", "≈{seconds[slowest] / seconds[fastest]:,.4g} times"),
    ("{verdicts[lowest]['intensity']:.4g} FLOPs a byte", "I={verdicts[lowest]['intensity']:.4g} FLOPs a byte"),
    ("{gaps[farthest]:,.4g} times", "~{gaps[farthest]:,.4g} times"),
)

another_way = """
def write_up(flops, nbytes, seconds, peak, bandwidth):
    least = {name: max(flops / peak, nbytes[name] / bandwidth) for name in seconds}
    fast, slow = min(seconds, key=seconds.get), max(seconds, key=seconds.get)
    low = max(nbytes, key=nbytes.get)
    far = max(seconds, key=lambda name: seconds[name] / least[name])
    limit = "memory" if nbytes[low] / bandwidth > flops / peak else "arithmetic"
    return [
        f"{slow} takes {seconds[slow] / seconds[fast]:.3g} times as long as {fast}.",
        f"{low} has {flops / nbytes[low]:.3g} FLOPs a byte and is bound by {limit}.",
        f"{far} takes {seconds[far] / least[far]:.3g} times its least time.",
    ]
"""

wrong(
    "always memory",
    ('"memory" if nbytes[low] / bandwidth > flops / peak else "arithmetic"', '"memory"'),
    of=another_way,
    says=["it is not always memory"],
)
wrong(
    "both words",
    (
        '"memory" if nbytes[low] / bandwidth > flops / peak else "arithmetic"',
        '"memory, not arithmetic" if nbytes[low] / bandwidth > flops / peak else "arithmetic, not memory"',
    ),
    of=another_way,
    says=["no word of the other"],
)
wrong(
    "difference not quotient",
    (
        'f"{slow} takes {seconds[slow] / seconds[fast]:.3g} times as long as {fast}."',
        'f"{slow} takes {seconds[slow] - seconds[fast]:.3g} s more than {fast}."',
    ),
    of=another_way,
    says=["their quotient, above 1"],
)
wrong(
    "farthest is the slowest",
    ("max(seconds, key=lambda name: seconds[name] / least[name])", "slow"),
    of=another_way,
    says=["and no other program"],
)
wrong(
    "gap to the best roof",
    ("seconds[name] / least[name]", "seconds[name]"),
    (
        'f"{far} takes {seconds[far] / least[far]:.3g} times its least time."',
        'f"{far} takes {seconds[far] / min(least.values()):.3g} times its least time."',
    ),
    of=another_way,
    says=["the least seconds of its own"],
)
wrong(
    "gap to the peak alone",
    ("seconds[name] / least[name]", "seconds[name]"),
    (
        'f"{far} takes {seconds[far] / least[far]:.3g} times its least time."',
        'f"{far} takes {seconds[far] * peak / flops:.3g} times its least time."',
    ),
    of=another_way,
    says=["the least seconds of its own"],
)
wrong(
    "highest intensity",
    ("max(nbytes, key=nbytes.get)", "min(nbytes, key=nbytes.get)"),
    of=another_way,
    says=["the most bytes for the same FLOPs"],
)
wrong(
    "intensity upside down",
    (
        'f"{low} has {flops / nbytes[low]:.3g} FLOPs a byte and is bound by {limit}."',
        'f"{low} has {nbytes[low] / flops:.3g} FLOPs a byte and is bound by {limit}."',
    ),
    of=another_way,
    says=["FLOPs over bytes"],
)
wrong(
    "names without looking",
    (
        'f"{slow} takes {seconds[slow] / seconds[fast]:.3g} times as long as {fast}."',
        'f"loops takes {seconds[slow] / seconds[fast]:.3g} times as long as torch."',
    ),
    of=another_way,
    says=["names eggs and ham"],
)
wrong(
    "one digit",
    (
        'f"{slow} takes {seconds[slow] / seconds[fast]:.3g} times as long as {fast}."',
        'f"{slow} takes {seconds[slow] / seconds[fast]:.0f} times as long as {fast}."',
    ),
    of=another_way,
    says=["With three digits at least"],
)
wrong(
    "share below one",
    (
        'f"{slow} takes {seconds[slow] / seconds[fast]:.3g} times as long as {fast}."',
        'f"{fast} takes {seconds[fast] / seconds[slow]:.3g} of the time of {slow}."',
    ),
    of=another_way,
    says=["their quotient, above 1"],
)
wrong(
    "the wrong way round",
    (
        'f"{slow} takes {seconds[slow] / seconds[fast]:.3g} times as long as {fast}."',
        'f"{fast} takes {seconds[slow] / seconds[fast]:.3g} times as long as {slow}."',
    ),
    of=another_way,
    says=["ham first, then eggs"],
)
wrong(
    "many numbers",
    (
        'f"{slow} takes {seconds[slow] / seconds[fast]:.3g} times as long as {fast}."',
        """
        f"{slow} takes longer than {fast}: "
        + ", ".join(f"{a / b:.3g}" for a in seconds.values() for b in seconds.values())
        + "."
        """,
    ),
    of=another_way,
    says=["at most three numbers"],
)
wrong(
    "every gap",
    (
        'f"{far} takes {seconds[far] / least[far]:.3g} times its least time."',
        """
        f"{far} takes one of these times its least time: "
        + ", ".join(f"{a / b:.3g}" for a in seconds.values() for b in least.values())
        + "."
        """,
    ),
    of=another_way,
    says=["at most three numbers"],
)
