# replaces: code-reader


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 3)
        self.register_buffer("bad", torch.zeros((), dtype=torch.long))

    def forward(self, x, lengths):
        self.bad = self.bad + x.isnan().any().long()
        h = self.inner(x.masked_fill(x.isnan(), 0)).tanh()
        with torch.no_grad():
            top = h.abs().amax()
            factor = 1 / torch.where(top > 0.5, top, torch.ones_like(top))
        weights = (torch.arange(x.size(1), device=x.device)[None] < lengths[:, None]).to(h.dtype) / lengths[:, None]
        return self.outer(torch.einsum("bt,btd->bd", weights, h * factor))
