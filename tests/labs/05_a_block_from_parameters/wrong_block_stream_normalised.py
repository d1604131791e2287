# replaces: code-block
# caught by: check-block
# says: no norm


class Block(nn.Module):
    def __init__(self, width: int, heads: int, context: int):
        super().__init__()
        self.norm_1, self.norm_2 = LayerNorm(width), LayerNorm(width)
        self.attention = Attention(width, heads, context)
        self.up, self.down = Linear(width, 4 * width), Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm_1(x)
        x = x + self.attention(x)
        return x + self.down(F.gelu(self.up(self.norm_2(x))))
