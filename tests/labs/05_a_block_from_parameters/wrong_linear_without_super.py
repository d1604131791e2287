# replaces: code-linear
# caught by: check-linear
# says: super().__init__() first


class Linear(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        self.weight = nn.Parameter(0.02 * torch.randn(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias
