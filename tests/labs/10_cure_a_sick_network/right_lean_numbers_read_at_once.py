# replaces: code-lean


def train_step(model, optimizer, inputs, labels, rows):
    with phase("data", device):
        batch, targets = inputs.index_select(0, rows), labels.index_select(0, rows)
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
    numbers = torch.stack([loss.detach(), accuracy, norm]).tolist()
    return dict(zip(("loss", "accuracy", "norm"), numbers))
