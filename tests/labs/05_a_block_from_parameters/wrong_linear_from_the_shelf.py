# replaces: code-linear
# caught by: check-linear
# says: none inherited from


class Linear(nn.Linear):
    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs)
        self.weight = nn.Parameter(0.02 * torch.randn(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias
