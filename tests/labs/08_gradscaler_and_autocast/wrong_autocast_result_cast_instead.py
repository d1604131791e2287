# replaces: code-autocast
# caught by: check-autocast
# says: gets input, weight and bias in `low`


class Autocast(TorchFunctionMode):
    def __init__(self, low: torch.dtype):
        super().__init__()
        self.low = low

    def convert(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        return tensor.to(dtype)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        args, kwargs = (
            cast((args, kwargs or {}), torch.float32) if name_of(function) in TO_LOW | TO_FP32 else (args, kwargs or {})
        )
        result = function(*args, **kwargs)
        return cast(result, self.low, self.convert) if name_of(function) in TO_LOW else result
