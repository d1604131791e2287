# replaces: code-train


def train(link, model, x, y, order, batch, lr, capacity):
    data_parallel(link, model, capacity)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    losses = []
    for start in range(0, len(order), batch):
        rows = order[start : start + batch]
        mine = torch.arange(len(rows), device=rows.device) % link.world == link.rank
        errors = F.mse_loss(model(x[rows[mine]]), y[rows[mine]], reduction="none").flatten()
        loss = torch.cat([errors, errors.new_zeros(1)]).sum() / (len(rows) * y.shape[1])
        whole = sum(each.item() for each in around(link, loss.detach()))
        losses.append(whole)
        optimizer.zero_grad()
        (link.world * loss).backward()
        optimizer.step()
    return losses
