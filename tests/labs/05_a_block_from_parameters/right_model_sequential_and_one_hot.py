# replaces: code-model


class Transformer(nn.Module):
    def __init__(self, vocabulary, context, width, heads, layers):
        super().__init__()
        self.norm = LayerNorm(width)
        self.blocks = nn.Sequential(*[Block(width, heads, context) for _ in range(layers)])
        self.positions = nn.Parameter(torch.empty(context, width).normal_(std=0.02))
        self.tokens = nn.Parameter(torch.empty(vocabulary, width).normal_(std=0.02))

    def forward(self, ids):
        vocabulary = len(self.tokens)
        if not ids.shape[1] <= len(self.positions):
            raise ValueError(f"no room for {ids.shape[1]} tokens")
        places = torch.arange(ids.shape[1], device=ids.device)
        x = F.one_hot(ids, vocabulary).to(self.tokens.dtype) @ self.tokens + self.positions[places]
        return F.linear(self.norm(self.blocks(x)), self.tokens)
