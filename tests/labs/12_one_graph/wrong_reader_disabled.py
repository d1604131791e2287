# replaces: code-reader
# caught by: check-reader
# says: this line still breaks the graph


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 3)
        self.register_buffer("bad", torch.zeros((), dtype=torch.long))

    @torch.compiler.disable
    def forward(self, x, lengths):
        self.bad += x.isnan().any()
        x = torch.where(x.isnan(), 0.0, x)
        h = self.inner(x).tanh()
        top = h.detach().abs().max()
        h = h / torch.where(top > 0.5, top, 1.0)
        real = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        return self.outer(torch.where(real[..., None], h, 0.0).sum(1) / lengths[:, None])
