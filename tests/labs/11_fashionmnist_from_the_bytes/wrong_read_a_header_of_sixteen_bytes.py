# replaces: code-read
# caught by: check-read
# says: its header is 8 bytes long


def read_idx(content):
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"not IDX: {content[:4].hex(' ')}")
    shape = tuple(int(n) for n in np.frombuffer(content, ">u4", count=content[3], offset=4))
    start = 12 if content[3] == 2 else 16
    if len(content) < start + math.prod(shape) and content[3] == 2:
        raise ValueError(f"{start + math.prod(shape)} bytes expected, {len(content)} found")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
