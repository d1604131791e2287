# replaces: code-train
# caught by: check-train
# says: the rate of step t is lr


def train(model, stream, steps, lr):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr)
    losses = []
    for x, y in itertools.islice(stream, steps):
        optimizer.param_groups[0]["lr"] = lr * (1 - len(losses) / (steps - 1))
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if len(losses) < steps:
        raise ValueError(f"only {len(losses)} of {steps} batches came")
    return losses
