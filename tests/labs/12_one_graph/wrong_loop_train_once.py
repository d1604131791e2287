# replaces: code-loop
# caught by: check-loop
# says: model.train() after it


def train(model, optimizer, batches, held_out, epochs: int, compile) -> dict:
    """Train, and validate after each epoch and at the end; the dict of the text: "train", "valid", "final", "rows"."""
    rows = []
    loss_of = compile(lambda x, y: F.cross_entropy(model(x), y))

    def validate() -> float:
        model.eval()
        total = count = 0
        with torch.no_grad():
            for x, y in held_out:
                rows.append(len(x))
                total += loss_of(x.float(), y).item() * len(y)
                count += len(y)
        return total / count

    history = {"train": [], "valid": [], "rows": rows}
    model.train()
    for _ in range(epochs):
        total = count = 0
        for x, y in batches:
            rows.append(len(x))
            optimizer.zero_grad()
            loss = loss_of(x, y)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
            count += len(y)
        history["train"].append(total / count)
        history["valid"].append(validate())
    history["final"] = validate()
    return history
