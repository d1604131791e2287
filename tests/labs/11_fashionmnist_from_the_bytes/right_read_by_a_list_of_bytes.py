# replaces: code-read


def read_idx(content):
    zero, empty, kind, axes = content[:4]
    if zero or empty or kind != 8:
        raise ValueError("bytes " + " ".join(f"{byte:02x}" for byte in content[:4]))
    shape = []
    for axis in range(axes):
        a, b, c, d = content[4 + 4 * axis : 8 + 4 * axis]
        shape.append(((a * 256 + b) * 256 + c) * 256 + d)
    whole = 4 + 4 * axes + math.prod(shape)
    if whole != len(content):
        raise ValueError(f"expected {whole}, found {len(content)}")
    return np.array(bytearray(content[4 + 4 * axes :]), dtype=np.uint8).reshape(*shape)
