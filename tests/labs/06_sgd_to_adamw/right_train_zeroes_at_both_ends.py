# replaces: code-train


def train(model, optimizer, x, y, peak, warmup, steps, floor, max_norm, first=0, stop=None):
    optimizer.zero_grad()
    losses, norms, rates = [], [], []
    for t in range(first, steps if stop is None else stop):
        optimizer.lr = peak * warmup_cosine(t, warmup, steps, floor)
        loss = (model(x) - y).square().mean()
        loss.backward()
        norm = clip_gradients(model.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        norms.append(float(norm))
        rates.append(optimizer.lr)
    return {"loss": losses, "norm": norms, "lr": rates}
