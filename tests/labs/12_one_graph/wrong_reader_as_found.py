# replaces: code-reader
# caught by: check-reader
# says: this line still breaks the graph


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 3)
        self.register_buffer("bad", torch.zeros((), dtype=torch.long))

    def forward(self, x, lengths):
        print(f"{len(x)} texts", end="; ")
        if x.isnan().any():
            self.bad += 1
            x = torch.where(x.isnan(), 0.0, x)
        h = self.inner(x).tanh()
        top = h.abs().max().item()
        h = h / top if top > 0.5 else h
        means = [row[:length].mean(0) for row, length in zip(h, lengths.tolist(), strict=True)]
        return self.outer(torch.stack(means))
