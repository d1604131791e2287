# replaces: code-evaluate


@torch.inference_mode()
def evaluate(model, data, batch, precision, device):
    modes = {module: module.training for module in model.modules()}
    model.train(False)
    losses, hits = [], []
    for start in range(0, len(data), batch):
        pairs = [data[i] for i in range(start, min(start + batch, len(data)))]
        x, y = (torch.stack(parts).to(device) for parts in zip(*pairs))
        with autocast(device, precision):
            logits = model(x)
        shares = logits.float().log_softmax(-1)
        losses.append(-shares.gather(-1, y.unsqueeze(-1)).flatten().double())
        hits.append((shares.argmax(-1) == y).flatten().double())
    for module, mode in modes.items():
        module.training = mode
    return {"loss": float(torch.cat(losses).mean()), "accuracy": float(torch.cat(hits).mean())}
