# replaces: code-reader
# caught by: check-reader
# says: this line still breaks the graph


class Reader(nn.Module):
    """Averages texts: x (B, T, 8), lengths (B,) whole numbers from 1 to T → (B, 3); `bad` counts batches with a NaN."""

    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 3)
        self.register_buffer("bad", torch.zeros((), dtype=torch.long))

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """One vector of 3 numbers for each text."""
        self.bad += x.isnan().any()
        x = torch.where(x.isnan(), 0.0, x)
        h = self.inner(x).tanh()
        top = h.abs().max().item()
        h = h / top if top > 0.5 else h
        real = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        means = torch.where(real[..., None], h, 0.0).sum(1) / lengths[:, None]
        return self.outer(means)
