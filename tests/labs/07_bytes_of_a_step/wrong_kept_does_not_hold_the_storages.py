# replaces: code-kept
# caught by: check-kept
# says: the next one gets the same id


def kept_bytes(function, parameters=()) -> int:
    """Bytes that autograd saves for backward while function() runs, each storage once and `parameters` not."""
    ours = [parameter.untyped_storage() for parameter in parameters]
    saved = {}

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        saved[id(storage)] = storage.nbytes()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function()
    references = {id(storage) for storage in ours}
    return sum(storage for key, storage in saved.items() if key not in references)
