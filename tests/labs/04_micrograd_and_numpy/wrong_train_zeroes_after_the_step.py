# replaces: code-train
# caught by: check-train
# says: was something left in .grad?


def example_loss(logits: list[Value], label: int) -> Value:
    """The cross-entropy of one example: log of the sum of exp(logit), less the logit of the label; logits of any size."""
    largest = max(logit.data for logit in logits)
    return sum((logit - largest).exp() for logit in logits).log() + largest - logits[label]


def train(net: MLP, points: list[list[float]], labels: list[int], steps: int, rate: float) -> list[float]:
    """Gradient descent on the mean loss over all points; changes net. Returns the losses before each of the steps."""
    losses = []
    for _ in range(steps):
        examples = [example_loss(net(point), label) for point, label in zip(points, labels, strict=True)]
        loss = sum(examples) * (1 / len(examples))
        backward(loss)
        for value in net.parameters():
            value.data -= rate * value.grad
            value.grad = 0.0
        losses.append(loss.data)
    return losses
