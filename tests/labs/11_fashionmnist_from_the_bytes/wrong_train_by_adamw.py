# replaces: code-train
# caught by: check-train
# says: torch.optim.Adam,


def train(model: nn.Module, stream: Iterator[tuple[Tensor, Tensor]], steps: int, lr: float) -> list[float]:
    """Train on `steps` batches by Adam, its rate falling from lr in a straight line to 0; the loss of each batch.

    ValueError, with the number of batches that came, if the stream ends before.
    """
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr)
    losses = []
    for t in range(steps):
        batch = next(stream, None)
        if batch is None:
            raise ValueError(f"{steps} steps need as many batches, and only {t} came")
        x, y = batch
        optimizer.param_groups[0]["lr"] = lr * (1 - t / steps)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
