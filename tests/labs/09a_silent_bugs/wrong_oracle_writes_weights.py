# replaces: code-oracle
# caught by: check-oracle
# says: have changed


def batch_gradient(model, weights, x, y):
    own = copy.deepcopy(model).eval()
    for p, q, w in zip(own.parameters(), model.parameters(), weights):
        p.data.copy_(w)
        q.data.copy_(w)
    return list(torch.autograd.grad(F.cross_entropy(own(x), y), list(own.parameters())))
