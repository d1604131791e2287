# replaces: code-evaluate
# caught by: check-evaluate
# says: Sums, divided once


@torch.no_grad()
def evaluate(model, x, y, size=1000):
    mode = model.training
    model.eval()
    loss = right = 0.0
    for start in range(0, len(x), size):
        scores, labels = model(x[start : start + size]), y[start : start + size]
        loss += F.cross_entropy(scores, labels).item()
        right += (scores.argmax(1) == labels).double().sum().item()
    model.train(mode)
    return loss / math.ceil(len(x) / size), right / len(x)
