# replaces: code-owned
# caught by: check-owned
# says: is 0 for all of meta


def owned_bytes(tensors):
    return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())
