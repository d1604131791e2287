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
        dtype = torch.float32 if name_of(function) in TO_FP32 else self.low
        args, kwargs = cast((args, kwargs), dtype, self.convert)
        return function(*args, **kwargs)
