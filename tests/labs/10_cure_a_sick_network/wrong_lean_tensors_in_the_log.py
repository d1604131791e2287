# replaces: code-lean
# caught by: check-lean
# says: a tensor in a log keeps its graph alive


def train_step(model, optimizer, inputs, labels, rows):
    with phase("data", device):
        batch, targets = inputs[rows], labels[rows]
    with phase("forward", device):
        outputs = model(batch)
        loss = F.cross_entropy(outputs, targets)
        accuracy = (outputs.argmax(1) == targets).float().mean()
    with phase("backward", device):
        loss.backward()
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])
    with phase("optimizer", device):
        optimizer.step()
        optimizer.zero_grad()
    return {"loss": loss, "accuracy": accuracy.item(), "norm": norm}
