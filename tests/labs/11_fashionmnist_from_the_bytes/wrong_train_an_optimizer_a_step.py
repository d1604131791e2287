# replaces: code-train
# caught by: check-train
# says: keep one optimizer


def train(model, stream, steps, lr):
    model.train()
    losses = []
    for x, y in itertools.islice(stream, steps):
        optimizer = torch.optim.Adam(model.parameters(), lr * (1 - len(losses) / steps))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if len(losses) < steps:
        raise ValueError(f"only {len(losses)} of {steps} batches came")
    return losses
