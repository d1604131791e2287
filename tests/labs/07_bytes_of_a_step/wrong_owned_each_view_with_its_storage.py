# replaces: code-owned
# caught by: check-owned
# says: by hand: 24 for the three


def owned_bytes(tensors):
    return sum(tensor.untyped_storage().nbytes() for tensor in tensors)
