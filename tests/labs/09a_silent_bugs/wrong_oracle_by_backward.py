# replaces: code-oracle
# caught by: check-oracle
# says: .grad has changed


def batch_gradient(model, weights, x, y):
    was, mode = [p.detach().clone() for p in model.parameters()], model.training
    model.eval()
    for p, w in zip(model.parameters(), weights):
        p.data.copy_(w)
    model.zero_grad()
    F.cross_entropy(model(x), y).backward()
    found = [p.grad.clone() for p in model.parameters()]
    for p, w in zip(model.parameters(), was):
        p.data.copy_(w)
    model.train(mode)
    return found
