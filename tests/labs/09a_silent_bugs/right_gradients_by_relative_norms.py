# replaces: code-gradients


def gradients_are_of_the_batch(train):
    for parts in (2, 3, 5):
        model, data, val = bed()
        x, y = data
        off = []
        for step in watch(train, model, data, val, 7, parts=parts).steps:
            rows = torch.tensor(step.ids, device=x.device) - 1
            wanted = torch.cat([g.flatten() for g in batch_gradient(model, step.weights, x[rows], y[rows])])
            got = torch.cat([g.flatten() for g in step.gradients])
            off.append(((got - wanted).norm() / wanted.norm()).item())
        assert all(error < 1e-8 for error in off), off
