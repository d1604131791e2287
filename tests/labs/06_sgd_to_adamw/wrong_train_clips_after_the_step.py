# replaces: code-train
# caught by: check-train
# says: clip between backward and step


def train(model, optimizer, x, y, peak, warmup, steps, floor, max_norm, first=0, stop=None):
    losses, norms, rates = [], [], []
    for t in range(first, steps if stop is None else stop):
        optimizer.lr = peak * warmup_cosine(t, warmup, steps, floor)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        norm = clip_gradients(model.parameters(), max_norm)
        losses.append(loss.item())
        norms.append(float(norm))
        rates.append(optimizer.lr)
    return {"loss": losses, "norm": norms, "lr": rates}
