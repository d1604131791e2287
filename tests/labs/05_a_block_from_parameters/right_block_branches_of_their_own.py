# replaces: code-block


class Block(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        for name, part in {
            "down": Linear(4 * width, width),
            "up": Linear(width, 4 * width),
            "attention": Attention(width, heads, context),
            "norm_2": LayerNorm(width),
            "norm_1": LayerNorm(width),
        }.items():
            self.add_module(name, part)

    def feed(self, x):
        hidden = self.up(self.norm_2(x))
        return self.down(hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2)

    def forward(self, x):
        y = self.attention(self.norm_1(x)) + x
        return torch.add(y, self.feed(y))
