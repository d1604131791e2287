# replaces: code-owned


def owned_bytes(tensors):
    found = []
    for tensor in tensors:
        if not any(tensor.untyped_storage() is storage for storage in found):
            found.append(tensor.untyped_storage())
    return sum(len(storage) for storage in found)
