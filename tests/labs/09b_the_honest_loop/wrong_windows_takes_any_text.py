# replaces: code-windows
# caught by: check-windows
# says: refuse


class Windows(Dataset):
    """Windows of `tokens` (n,) as x, y, int64 (context,) each; window i begins at i * stride, and y is one place on."""

    def __init__(self, tokens: Tensor, context: int, stride: int):
        if len(tokens) < 1:
            raise ValueError(f"context {context} needs {context + 1} tokens, and there are {len(tokens)}")
        self.tokens, self.context, self.stride = tokens, context, stride

    def __len__(self) -> int:
        """The number of full windows."""
        return (len(self.tokens) - self.context - 1) // self.stride + 1

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        """Window i. Raises IndexError for one that does not exist."""
        if not 0 <= i < len(self):
            raise IndexError(f"window {i} of {len(self)}")
        window = self.tokens[i * self.stride :][: self.context + 1].long()
        return window[:-1], window[1:]
