# replaces: code-train


def example_loss(logits, label):
    """For each logit the difference to the label's: log of the sum of exp, with the largest taken as a Value."""
    differences = [logit - logits[label] for logit in logits]
    largest = max(differences, key=lambda value: value.data)
    total = Value(0)
    for difference in differences:
        total = total + (difference - largest).exp()
    return largest + total.log()


def train(net, points, labels, steps, rate):
    """Backward example by example: the gradients of the mean add up in .grad."""
    losses = []
    for _ in range(steps):
        for value in net.parameters():
            value.grad = 0.0
        total = 0.0
        for point, label in zip(points, labels):
            loss = example_loss(net(point), label) / len(points)
            backward(loss)
            total += loss.data
        for value in net.parameters():
            value.data = value.data - rate * value.grad
        losses.append(total)
    return losses
