# replaces: code-kept


class Watching:
    def __init__(self, ignored):
        self.ignored, self.storages = ignored, []

    def pack(self, tensor):
        storage = tensor.untyped_storage()
        if not any(storage is other for other in self.ignored + self.storages):
            self.storages.append(storage)
        return tensor.view_as(tensor).data

    def unpack(self, tensor):
        return tensor


def kept_bytes(function, parameters=()):
    watching = Watching([p.untyped_storage() for p in parameters])
    with torch.autograd.graph.saved_tensors_hooks(watching.pack, watching.unpack):
        function()
    return sum(storage.nbytes() for storage in watching.storages)
