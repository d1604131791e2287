# replaces: code-train


def train(model, stream, steps, lr):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr, foreach=False)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 - t / steps)
    losses = []
    while len(losses) < steps:
        try:
            x, y = next(stream)
        except StopIteration:
            raise ValueError(f"the stream ended after {len(losses)}") from None
        loss = -F.log_softmax(model(x), 1)[range(len(y)), y].mean()
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses
