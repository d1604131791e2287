# replaces: code-norm
# caught by: check-norm
# says: with three axes


class LayerNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        deviations = x - x.flatten(1).mean(1)[:, None, None] if x.ndim == 3 else x - x.mean(-1, keepdim=True)
        variance = deviations.square().mean(-1, keepdim=True)
        return deviations / torch.sqrt(variance + 1e-5) * self.weight + self.bias
