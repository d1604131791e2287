"""A right loop as functions call each other: the state is a dict, and one file in the run's folder holds it."""

import copy
import math
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import torch
from torch.optim import SGD
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import default_collate

from utils.checks.any_loop import adapt
from utils.device import rng_state, seed_everything, set_rng_state


def counted(y):
    """The number of targets that are not ignored."""
    return int(y.ne(-100).sum())


def shuffled(examples, seed, epoch):
    generator = torch.Generator().manual_seed(1_000 * seed + epoch)
    return torch.randperm(examples, generator=generator)


def batches_of_epoch(data, batch_size, seed, epoch):
    for rows in shuffled(len(data), seed, epoch).split(batch_size):
        yield default_collate([data[int(row)] for row in rows])


def train_step(model, optimizer, scheduler, loss, x, y, accumulation):
    optimizer.zero_grad()
    total = 0.0
    for x_part, y_part in zip(x.tensor_split(accumulation), y.tensor_split(accumulation), strict=True):
        if len(x_part):
            value = loss(model(x_part), y_part) * (counted(y_part) / max(1, counted(y)))
            value.backward()
            total += value.item()
    optimizer.step()
    scheduler.step()
    return total


def update_average(average, model, decay):
    with torch.no_grad():
        for a, p in zip(average.parameters(), model.parameters(), strict=True):
            a.mul_(decay).add_(p, alpha=1 - decay)
        for a, p in zip(average.buffers(), model.buffers(), strict=True):
            a.copy_(p)


def validate(model, loss, val, batch_size):
    model.eval()
    total = 0.0
    targets = 0
    with torch.no_grad():
        for rows in torch.arange(len(val)).split(batch_size):
            x, y = default_collate([val[int(row)] for row in rows])
            total += loss(model(x), y).item() * counted(y)
            targets += counted(y)
    model.train()
    return total / targets


def save(file, parts, progress):
    file.parent.mkdir(parents=True, exist_ok=True)
    state = {name: part.state_dict() for name, part in parts.items()}
    torch.save(state | {"progress": progress, "random": rng_state()}, file)


def restore(file, parts, progress):
    state = torch.load(file, weights_only=False)
    for name, part in parts.items():
        part.load_state_dict(state[name])
    progress.update(state["progress"])
    set_rng_state(state["random"])


@adapt
def loop(
    *, model, data, val, run, loss, steps, batch_size, accumulation, seed, lr, momentum, schedule, ema, val_every,
    save_every, patience,
):  # fmt: skip
    def factor(step):
        return (1 + math.cos(math.pi * step / steps)) / 2 if schedule == "cosine" else 1.0

    seed_everything(seed)
    optimizer = SGD(model.parameters(), lr, momentum=momentum)
    scheduler = LambdaLR(optimizer, factor)
    average = copy.deepcopy(model)
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "average": average}
    progress = {"step": 0, "epoch": 0, "place": 0, "best": None, "best_weights": None, "waited": 0}
    file = run and Path(run, "last.pt")
    if run and file.exists():
        restore(file, parts, progress)
    history, per_epoch = [], math.ceil(len(data) / batch_size)
    while progress["step"] < steps and not (patience and progress["waited"] >= patience):
        epoch = batches_of_epoch(data, batch_size, seed, progress["epoch"])
        for place, (x, y) in enumerate(islice(epoch, per_epoch)):
            if place < progress["place"]:
                continue
            value = train_step(model, optimizer, scheduler, loss, x, y, accumulation)
            if ema:
                update_average(average, model, ema)
            progress["step"] += 1
            progress["place"] = place + 1
            if progress["place"] == per_epoch:
                progress.update(epoch=progress["epoch"] + 1, place=0)
            history.append({"step": progress["step"], "loss": value})
            if val is not None and progress["step"] % (val_every or steps) == 0:
                val_loss = validate(average if ema else model, loss, val, batch_size)
                history.append({"step": progress["step"], "val_loss": val_loss})
                best = progress["best"]
                if best is None or val_loss < best["val_loss"]:
                    progress.update(best={"step": progress["step"], "val_loss": val_loss}, waited=0)
                    progress["best_weights"] = copy.deepcopy(model.state_dict())
                else:
                    progress["waited"] += 1
            if run and progress["step"] % save_every == 0:
                save(file, parts, progress)
            if progress["step"] == steps or (patience and progress["waited"] >= patience):
                break
    return SimpleNamespace(history=history, best=progress["best"], best_weights=progress["best_weights"])
