# replaces: code-loop


def train(model, optimizer, batches, held_out, epochs, compile):
    forward, rows = compile(model), []

    def through(pairs):
        losses = []
        for x, y in pairs:
            rows.append(x.shape[0])
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(forward(x.to(torch.float32)), y, reduction="none")
            if model.training:
                loss.mean().backward()
                optimizer.step()
            losses.append(loss.detach())
        return torch.cat(losses).mean().item()

    result = {"train": [], "valid": []}
    for _ in range(epochs):
        result["train"].append(through(batches) if model.train() else None)
        with torch.no_grad():
            result["valid"].append(through(held_out) if model.eval() else None)
    with torch.no_grad():
        result["final"] = through(held_out)
    return {**result, "rows": rows}
