# replaces: code-loop
# caught by: check-loop
# says: One more at every call


def train(model, optimizer, batches, held_out, epochs, compile):
    rows = []

    def loss_of(x, y):
        rows.append(len(x))
        return F.cross_entropy(model(x), y)

    loss_of = compile(loss_of)

    def validate():
        model.eval()
        total = count = 0
        with torch.no_grad():
            for x, y in held_out:
                total += loss_of(x.float(), y).item() * len(y)
                count += len(y)
        return total / count

    history = {"train": [], "valid": [], "rows": rows}
    for _ in range(epochs):
        model.train()
        total = count = 0
        for x, y in batches:
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
