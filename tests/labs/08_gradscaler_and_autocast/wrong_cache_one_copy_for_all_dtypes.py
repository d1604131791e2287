# replaces: code-cache
# caught by: check-cache
# says: it must not get the copy of 16 bits


class CachedAutocast(Autocast):
    def __init__(self, low: torch.dtype):
        super().__init__(low)
        self.copies = {}

    def convert(self, tensor: Tensor, dtype: torch.dtype) -> Tensor:
        is_weight = tensor.dtype == torch.float32 and tensor.is_leaf and tensor.requires_grad
        if not is_weight:
            return tensor.to(dtype)
        key = (tensor, torch.is_grad_enabled())
        if key not in self.copies:
            self.copies[key] = tensor.to(dtype)
        return self.copies[key]

    def forget(self) -> None:
        self.copies.clear()

    def __exit__(self, *error):
        try:
            self.forget()
        finally:
            super().__exit__(*error)
