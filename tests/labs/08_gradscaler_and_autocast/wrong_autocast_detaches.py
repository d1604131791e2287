# replaces: code-autocast
# caught by: check-autocast
# says: through


class Autocast(TorchFunctionMode):
    def __init__(self, low: torch.dtype):
        super().__init__()
        self.low = low

    def convert(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        return tensor.to(dtype)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        for names, dtype in ((TO_LOW, self.low), (TO_FP32, torch.float32)):
            if name_of(function) in names:
                args, kwargs = cast((args, kwargs), dtype, lambda tensor, d: self.convert(tensor.detach(), d))
        return function(*args, **kwargs)
