# replaces: code-owned
# caught by: check-owned
# says: by hand: 24 for the three


def owned_bytes(tensors):
    return sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())
