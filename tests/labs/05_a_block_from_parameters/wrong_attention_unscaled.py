# replaces: code-attention
# caught by: check-attention
# says: scores over √d


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, context: int):
        super().__init__()
        if width % heads:
            raise ValueError(f"a width of {width} does not split into {heads} heads")
        self.heads = heads
        self.qkv, self.out = Linear(width, 3 * width), Linear(width, width)
        self.register_buffer("mask", torch.ones(context, context).tril().bool(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        B, T, width = x.shape
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1)
        shares = scores.masked_fill(~self.mask[:T, :T], -math.inf).softmax(-1)
        return self.out((shares @ v).transpose(1, 2).reshape(B, T, width))
