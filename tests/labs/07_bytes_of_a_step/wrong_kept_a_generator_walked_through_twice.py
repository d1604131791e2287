# replaces: code-kept
# caught by: check-kept
# says: may come from a generator


def kept_bytes(function, parameters=()) -> int:
    """Bytes that autograd saves for backward while function() runs, each storage once and `parameters` not."""
    ours = [parameter.untyped_storage() for parameter in parameters] and [p.untyped_storage() for p in parameters]
    saved = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[id(storage)] = storage
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function()
    references = {id(storage) for storage in ours}
    return sum(storage.nbytes() for key, storage in saved.items() if key not in references)
