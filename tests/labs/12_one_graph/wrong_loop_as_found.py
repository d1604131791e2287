# replaces: code-loop
# caught by: check-loop
# says: One more at every call


def train(model, optimizer, batches, held_out, epochs: int, compile) -> dict:
    """Train, and validate after each epoch and at the end; the dict of the text: "train", "valid", "final", "rows"."""
    rows = []

    def loss_of(x, y, phase):
        rows.append(len(x))
        loss = F.cross_entropy(model(x.float()), y)
        return loss.detach() if "valid" in phase else loss

    loss_of = compile(loss_of)

    def validate(phase, without_gradients) -> float:
        model.eval()
        total = count = 0
        with without_gradients():
            for x, y in held_out:
                total += loss_of(x, y, phase).item() * len(y)
                count += len(y)
        return total / count

    history = {"train": [], "valid": [], "rows": rows}
    for epoch in range(epochs):
        model.train()
        total = count = 0
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_of(x, y, f"train {epoch}")
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
            count += len(y)
        history["train"].append(total / count)
        history["valid"].append(validate(f"valid {epoch}", torch.no_grad))
    history["final"] = validate("final valid", torch.inference_mode)
    return history
