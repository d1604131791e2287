# replaces: code-owned
# caught by: check-owned
# says: each storage once


def owned_bytes(tensors: list[Tensor]) -> int:
    """Bytes of all storages behind the tensors, each counted once and whole; on any device, meta included."""
    if len(tensors) == 1:
        return tensors[0].untyped_storage().nbytes() - tensors[0].storage_offset() * tensors[0].element_size()
    storages = {id(storage): storage for storage in [tensor.untyped_storage() for tensor in tensors]}
    return sum(storage.nbytes() for storage in storages.values())
