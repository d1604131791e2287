# replaces: code-autocast
# caught by: check-autocast
# says: all else runs as it is given


class Autocast(TorchFunctionMode):
    def __init__(self, low: torch.dtype):
        super().__init__()
        self.low = low

    def convert(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        return tensor.to(dtype)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        dtype = self.low if name_of(function) in TO_LOW else torch.float32
        args, kwargs = cast((args, kwargs), dtype, self.convert)
        return function(*args, **kwargs)
