# replaces: code-train
# caught by: check-train
# says: rows[rank::K]


def train(link, model, x: Tensor, y: Tensor, order: Tensor, batch: int, lr: float, capacity: int) -> list[float]:
    """SGD on the mean squared error, batches of `batch` indices of `order` (M,) dealt to the ranks; each batch's loss.

    x (N, I) and y (N, O) are all data, on every rank. The losses, before each step, are those of whole batches.
    """
    data_parallel(link, model, capacity)
    losses = []
    for rows in order.split(batch):
        share = rows.tensor_split(link.world)[link.rank]
        loss = (model(x[share]) - y[share]).square().sum() * link.world / y[rows].numel()
        loss.backward()
        total = loss.detach().view(1).clone()
        all_reduce(link, total)
        losses.append(total.item() / link.world)
        with torch.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    p -= lr * p.grad
                    p.grad = None
    return losses
