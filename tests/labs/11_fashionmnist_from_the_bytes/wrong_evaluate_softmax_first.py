# replaces: code-evaluate
# caught by: check-evaluate
# says: no softmax


def evaluate(model: nn.Module, x: Tensor, y: Tensor, size: int = 1000) -> tuple[float, float]:
    """Mean cross-entropy (nats) and accuracy over all examples, in evaluation mode, `size` at a time."""
    mode = model.training
    model.eval()
    loss = right = 0.0
    with torch.no_grad():
        for pictures, labels in zip(x.split(size), y.split(size), strict=True):
            scores = model(pictures)
            loss += F.cross_entropy(scores.softmax(1), labels, reduction="sum").item()
            right += (scores.argmax(1) == labels).sum().item()
    model.train(mode)
    return loss / len(x), right / len(x)
