# replaces: code-evaluate
# caught by: check-evaluate
# says: model.train(mode)


@torch.no_grad()
def evaluate(model, x, y, size=1000):
    mode = model.training
    model.eval()
    loss = right = 0.0
    for start in range(0, len(x), size):
        scores, labels = model(x[start : start + size]), y[start : start + size]
        loss += F.cross_entropy(scores, labels).item() * len(labels)
        right += (scores.argmax(1) == labels).double().sum().item()
    return loss / len(x), right / len(x)
