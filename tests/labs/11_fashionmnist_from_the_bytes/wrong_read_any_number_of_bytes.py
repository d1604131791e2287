# replaces: code-read
# caught by: check-read
# says: 27


def read_idx(content):
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"not IDX: {content[:4].hex(' ')}")
    start = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
    return np.frombuffer(content, np.uint8, count=math.prod(shape), offset=start).reshape(shape).copy()
