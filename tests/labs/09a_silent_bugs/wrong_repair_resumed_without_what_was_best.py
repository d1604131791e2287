# replaces: code-repair
# caught by: check-repair
# says: resumes_exactly should see this


def train(model, data, val, steps, lr=0.1, size=8, parts=3, clip=math.inf, warmup=3, seed=0, state=None):
    """Train the model in place up to step `steps`; a `state` that an earlier call returned is gone on from."""
    x, y = data
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warmup, math.sqrt(warmup / (step + 1)))
    )
    epoch_steps = math.ceil(len(x) / size)
    log = {"loss": [], "norm": [], "rate": [], "val_loss": []}
    first, best, lowest = 0, None, math.inf
    if state is not None:
        first = state["step"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        schedule.load_state_dict(state["schedule"])
        torch.set_rng_state(state["random"])
    for step in range(first, steps):
        epoch, place = divmod(step, epoch_steps)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed + epoch))
        batch = order[place * size : (place + 1) * size]
        counted = (y[batch] != IGNORE).sum()
        total = 0.0
        model.train()
        optimizer.zero_grad()
        for part in batch.tensor_split(parts):
            loss = F.cross_entropy(model(x[part]), y[part], reduction="sum") / counted
            loss.backward()
            total += loss.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip)
        log["norm"].append(norm.item())
        log["rate"].append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
        log["loss"].append(total)
        if place == epoch_steps - 1:
            losses, counts = [], []
            model.eval()
            with torch.no_grad():
                for vx, vy in zip(val[0].split(size), val[1].split(size), strict=True):
                    losses.append(F.cross_entropy(model(vx), vy, reduction="sum").item())
                    counts.append((vy != IGNORE).sum().item())
            val_loss = sum(losses) / sum(counts)
            log["val_loss"].append(val_loss)
            if val_loss < lowest:
                lowest, best = val_loss, copy.deepcopy(model.state_dict())
    state = {
        "step": steps,
        "best": best,
        "lowest": lowest,
        "model": copy.deepcopy(model.state_dict()),
        "optimizer": copy.deepcopy(optimizer.state_dict()),
        "schedule": schedule.state_dict(),
        "random": torch.get_rng_state(),
    }
    return {"log": log, "best": best, "state": state}
