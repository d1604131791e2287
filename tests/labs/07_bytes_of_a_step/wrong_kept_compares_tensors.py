# replaces: code-kept
# caught by: check-kept
# says: compare storages and not tensors


def kept_bytes(function, parameters=()):
    ours, saved = {id(parameter) for parameter in parameters}, {}

    def pack(tensor):
        if id(tensor) not in ours:
            saved[id(tensor.untyped_storage())] = tensor.untyped_storage()
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function()
    return sum(storage.nbytes() for storage in saved.values())
