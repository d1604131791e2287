# replaces: code-norm
# caught by: check-norm
# says: a weight of ones


class LayerNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        deviations = x - x.mean(-1, keepdim=True)
        variance = deviations.square().mean(-1, keepdim=True)
        return deviations / torch.sqrt(variance + 1e-5) * self.weight + self.bias
