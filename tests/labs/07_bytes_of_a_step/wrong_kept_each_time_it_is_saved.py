# replaces: code-kept
# caught by: check-kept
# says: by hand: write down the storage


def kept_bytes(function, parameters=()):
    ours, total = {id(p.untyped_storage()) for p in parameters}, 0

    def pack(tensor):
        nonlocal total
        storage = tensor.untyped_storage()
        total += storage.nbytes() if id(storage) not in ours else 0
        return tensor.detach()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        function()
    return total
