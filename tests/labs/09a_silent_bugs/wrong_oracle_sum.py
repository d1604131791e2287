# replaces: code-oracle
# caught by: check-oracle
# says: the mean over the targets that count


def batch_gradient(model: nn.Module, weights: list[Tensor], x: Tensor, y: Tensor) -> list[Tensor]:
    own = copy.deepcopy(model).eval()
    with torch.no_grad():
        for p, w in zip(own.parameters(), weights, strict=True):
            p.copy_(w)
    return list(torch.autograd.grad(F.cross_entropy(own(x), y, reduction="sum"), list(own.parameters())))
