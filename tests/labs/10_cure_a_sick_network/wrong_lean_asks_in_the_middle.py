# replaces: code-lean
# caught by: check-lean
# says: behind the last phase


def train_step(model, optimizer, inputs, labels, rows):
    with phase("data", device):
        batch, targets = inputs[rows], labels[rows]
    with phase("forward", device):
        outputs = model(batch)
        loss = F.cross_entropy(outputs, targets)
        accuracy = (outputs.argmax(1) == targets).float().mean().item()
    with phase("backward", device):
        loss.backward()
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()]).item()
    with phase("optimizer", device):
        optimizer.step()
        optimizer.zero_grad()
    return {"loss": loss.item(), "accuracy": accuracy, "norm": norm}
