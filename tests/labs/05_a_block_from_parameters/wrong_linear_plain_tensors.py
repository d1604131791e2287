# replaces: code-linear
# caught by: check-linear
# says: 'weight' missing
# says: must be an nn.Parameter


class Linear(nn.Module):
    def __init__(self, inputs: int, outputs: int):
        super().__init__()
        self.weight = (0.02 * torch.randn(outputs, inputs)).requires_grad_()
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias
