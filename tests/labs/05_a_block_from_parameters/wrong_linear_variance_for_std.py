# replaces: code-linear
# caught by: check-linear
# says: standard deviation 0.02


class Linear(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.weight = nn.Parameter(0.02**0.5 * torch.randn(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias
