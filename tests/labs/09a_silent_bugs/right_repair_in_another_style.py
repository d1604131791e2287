# replaces: code-repair


def train(model, data, val, steps, lr=0.1, size=8, parts=3, clip=math.inf, warmup=3, seed=0, state=None):
    (x, y), n = data, len(data[0])
    parameters = list(model.parameters())
    done, best, lowest = 0, None, math.inf
    if state:
        done, best, lowest = state["step"], state["best"], state["lowest"]
        model.load_state_dict(state["model"])
        torch.set_rng_state(state["random"])
    log = {name: [] for name in ("loss", "norm", "rate", "val_loss")}
    optimizer = torch.optim.SGD(parameters, lr=1.0, momentum=0.9, foreach=False)
    if state:
        optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
    while done < steps:
        epoch = done // -(-n // size)
        stream = torch.Generator().manual_seed(1_000_003 * seed + epoch)
        batches = torch.rand(n, generator=stream).argsort().split(size)
        for place in range(done % len(batches), min(len(batches), steps - epoch * len(batches))):
            batch, sums, told = batches[place], [0.0] * len(parameters), 0.0
            for part in batch.chunk(parts):
                model.train()
                loss = F.cross_entropy(model(x[part]), y[part], reduction="sum", ignore_index=IGNORE)
                sums = [s + g for s, g in zip(sums, torch.autograd.grad(loss, parameters))]
                told += loss.item()
            count = int((y[batch] != IGNORE).sum())
            for p, s in zip(parameters, sums):
                p.grad = s / count
            log["norm"].append(float(nn.utils.clip_grad_norm_(parameters, clip)))
            log["loss"].append(told / count)
            rate = lr * min((done + 1) / warmup, (warmup / (done + 1)) ** 0.5)
            log["rate"].append(rate)
            optimizer.param_groups[0]["lr"] = rate
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            done += 1
        if done % len(batches) == 0:
            model.eval()
            with torch.inference_mode():
                outputs = torch.cat([model(each) for each in val[0].split(4)])
            log["val_loss"].append(F.cross_entropy(outputs, val[1]).item())
            if log["val_loss"][-1] < lowest:
                lowest = log["val_loss"][-1]
                best = {name: t.clone() for name, t in model.state_dict().items()}
    saved = {
        "step": done,
        "best": best,
        "lowest": lowest,
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "random": torch.get_rng_state(),
    }
    saved["model"] = {name: t.clone() for name, t in model.state_dict().items()}
    return {"log": log, "best": best, "state": saved}
