# replaces: code-attention


from einops import rearrange


class Attention(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        if width % heads != 0:
            raise ValueError(f"width={width}, heads={heads}")
        self.heads = heads
        self.qkv = Linear(width, 3 * width)
        self.out = Linear(width, width)
        self.register_buffer("mask", ~torch.ones(context, context, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, x):
        T = x.shape[1]
        q, k, v = rearrange(self.qkv(x), "b t (three h d) -> three b h t d", three=3, h=self.heads)
        bias = torch.zeros(T, T, device=x.device, dtype=x.dtype).masked_fill(self.mask[:T, :T].logical_not(), -torch.inf)
        scores = torch.einsum("bhid,bhjd->bhij", q / q.shape[-1] ** 0.5, k) + bias
        return self.out(rearrange(torch.softmax(scores, dim=3) @ v, "b h t d -> b t (h d)"))
