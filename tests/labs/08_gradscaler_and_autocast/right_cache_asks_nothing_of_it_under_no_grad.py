# replaces: code-cache


class CachedAutocast(Autocast):
    def __init__(self, low):
        super().__init__(low)
        self.copies = []

    def convert(self, tensor, dtype):
        if dtype != self.low or not torch.is_grad_enabled():
            return tensor.to(dtype)
        if tensor.dtype != torch.float32 or tensor.grad_fn is not None or not tensor.requires_grad:
            return tensor.to(dtype)
        for weight, copy in self.copies:
            if weight is tensor:
                return copy
        self.copies.append((tensor, tensor.to(dtype)))
        return self.copies[-1][1]

    def forget(self):
        self.copies = []

    def __exit__(self, *error):
        try:
            self.forget()
        finally:
            super().__exit__(*error)
