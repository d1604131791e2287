# replaces: code-model
# caught by: check-model
# says: a plain list registers nothing


class Transformer(nn.Module):
    def __init__(self, vocabulary: int, context: int, width: int, heads: int, layers: int):
        super().__init__()
        self.tokens = nn.Parameter(0.02 * torch.randn(vocabulary, width))
        self.positions = nn.Parameter(0.02 * torch.randn(context, width))
        self.blocks = [Block(width, heads, context) for _ in range(layers)]
        self.norm = LayerNorm(width)

    def forward(self, ids: Tensor) -> Tensor:
        count, context = ids.shape[1], len(self.positions)
        if count > context:
            raise ValueError(f"{count} tokens are more than the context of {context}")
        x = self.tokens[ids] + self.positions[:count]
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.T
