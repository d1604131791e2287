# replaces: code-autocast


class Autocast(TorchFunctionMode):
    def __init__(self, low):
        super().__init__()
        self.low = low
        self.wanted = dict.fromkeys(TO_LOW, low) | dict.fromkeys(TO_FP32, torch.float32)

    def convert(self, tensor, dtype):
        return tensor.to(dtype)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        dtype = self.wanted.get(name_of(function))
        if dtype is None:
            return function(*args, **(kwargs or {}))
        names = list(kwargs or {})
        positional = [*args, *(kwargs or {}).values()]
        casted = [cast(each, dtype, self.convert) for each in positional]
        split = len(args)
        return function(*casted[:split], **dict(zip(names, casted[split:])))
