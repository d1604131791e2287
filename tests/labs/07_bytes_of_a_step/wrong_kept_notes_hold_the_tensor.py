# replaces: code-kept
# caught by: check-kept
# says: not the tensor that pack got


def kept_bytes(function, parameters=()) -> int:
    references = {parameter.untyped_storage() for parameter in parameters}
    saved = []

    def pack(tensor: Tensor) -> Tensor:
        saved.append(tensor)
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function()
    return sum(storage.nbytes() for storage in {tensor.untyped_storage() for tensor in saved} - references)
