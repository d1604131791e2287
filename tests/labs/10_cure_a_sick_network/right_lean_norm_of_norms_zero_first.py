# replaces: code-lean


def train_step(model, optimizer, inputs, labels, rows):
    optimizer.zero_grad()
    with phase("data", device):
        batch, targets = inputs[rows], labels[rows]
    with phase("forward", device):
        outputs = model(batch)
        loss = F.cross_entropy(outputs, targets)
        accuracy = (outputs.argmax(1) == targets).float().mean()
    with phase("backward", device):
        loss.backward()
        norm = torch.stack([p.grad.square().sum() for p in model.parameters()]).sum().sqrt()
    with phase("optimizer", device):
        optimizer.step()
    return {"loss": loss.item(), "accuracy": accuracy.item(), "norm": norm.item()}
