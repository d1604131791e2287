# replaces: code-oracle
# caught by: check-oracle
# says: at the weights that are given


def batch_gradient(model: nn.Module, weights: list[Tensor], x: Tensor, y: Tensor) -> list[Tensor]:
    own = copy.deepcopy(model).eval()
    with torch.no_grad():
        for p, w in zip(own.parameters(), weights, strict=True):
            pass
    return list(torch.autograd.grad(F.cross_entropy(own(x), y), list(own.parameters())))
