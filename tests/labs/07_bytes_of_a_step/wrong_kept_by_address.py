# replaces: code-kept
# caught by: check-kept
# says: all addresses are 0


def kept_bytes(function, parameters=()):
    ours, saved = {p.untyped_storage().data_ptr() for p in parameters}, {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        saved[storage.data_ptr()] = storage
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function()
    return sum(storage.nbytes() for address, storage in saved.items() if address not in ours)
