# replaces: code-oracle


def batch_gradient(model, weights, x, y):
    names = [name for name, _ in model.named_parameters()]
    leaves = [w.detach().clone().requires_grad_() for w in weights]
    own = copy.deepcopy(model)
    own.eval()
    outputs = torch.func.functional_call(own, dict(zip(names, leaves)), (x[y != IGNORE],))
    loss = -outputs.log_softmax(-1).gather(1, y[y != IGNORE][:, None]).mean()
    loss.backward()
    return tuple(leaf.grad for leaf in leaves)
