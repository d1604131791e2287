# replaces: code-owned
# caught by: check-owned
# says: each storage once


def owned_bytes(tensors):
    return sum({t.untyped_storage().nbytes() for t in tensors})
