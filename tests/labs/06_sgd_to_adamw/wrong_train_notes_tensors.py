# replaces: code-train
# caught by: check-train
# says: keeps the graph of its step alive


def train(model, optimizer, x, y, peak, warmup, steps, floor, max_norm, first=0, stop=None):
    notes = {"loss": [], "norm": [], "lr": []}
    for t in range(first, steps if stop is None else stop):
        optimizer.lr = peak * warmup_cosine(t, warmup, steps, floor)
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        norm = clip_gradients(model.parameters(), max_norm)
        optimizer.step()
        for name, value in zip(notes, (loss, norm, optimizer.lr), strict=True):
            notes[name].append(value)
    return notes
