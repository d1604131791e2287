# replaces: code-evaluate
# caught by: check-evaluate
# says: logits.float()


def evaluate(model: nn.Module, data: Dataset, batch: int, precision: str, device: torch.device) -> dict[str, float]:
    """{"loss": nats per target, "accuracy": share of targets}, over all of `data` in order; nothing is left changed."""
    was_training = model.training
    model.eval()
    loss, right, targets = 0.0, 0, 0
    with torch.no_grad():
        for x, y in DataLoader(data, batch_size=batch, generator=torch.Generator()):
            with autocast(device, precision):
                logits = model(x.to(device))
            logits, y = logits.flatten(0, -2), y.to(device).flatten()
            loss += F.cross_entropy(logits, y, reduction="sum").item()
            right += (logits.argmax(-1) == y).sum().item()
            targets += y.numel()
    model.train(was_training)
    return {"loss": loss / targets, "accuracy": right / targets}
