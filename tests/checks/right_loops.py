"""Right training loops, each in another style of its own: no detector may raise an alarm at any of them.

What differs is what people differ in: functions, classes, closures, generators; when and in how large batches they
validate; what their history is called and how it is kept; where checkpoints go and in which format; how they average.
"""

import copy
import json
import math
import pickle
import shutil
from collections import defaultdict
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import LambdaLR, OneCycleLR
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, Sampler, default_collate

from utils.checks.any_loop import adapt
from utils.device import rng_state, seed_everything, set_rng_state


def batch(data, rows):
    return default_collate([data[int(row)] for row in rows])


def shuffled(n, seed, epoch):
    return torch.randperm(n, generator=torch.Generator().manual_seed(1_000 * seed + epoch))


def counted(y):
    return int(y.ne(-100).sum())


# ---- functions: validation in batches of 8, a history of every step, nothing on the disk -------------------------------


def mean_over(model, data, loss, size=8):
    """The mean loss over all targets of `data`, in batches of `size`."""
    model.eval()
    total = targets = 0
    with torch.no_grad():
        for x, y in DataLoader(data, size):
            total += loss(model(x), y).item() * counted(y)
            targets += counted(y)
    model.train()
    return total / targets


@adapt
def with_functions(model, data, val, loss, steps, batch_size, lr, val_every, patience, seed, clip):
    seed_everything(seed)
    optimizer = SGD(model.parameters(), lr)
    history, best, best_weights, worse = [], None, None, 0
    per_epoch = math.ceil(len(data) / batch_size)
    for step in range(steps):
        epoch, place = divmod(step, per_epoch)
        x, y = batch(data, shuffled(len(data), seed, epoch)[place * batch_size :][:batch_size])
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), clip or math.inf)
        optimizer.step()
        history.append({"step": step + 1, "epoch": epoch, "lr": lr, "loss": value.item(), "grad_norm": norm.item()})
        if val is not None and ((val_every and (step + 1) % val_every == 0) or step + 1 == steps):
            val_loss = mean_over(model, val, loss)
            history.append({"step": step + 1, "val_loss": val_loss, "val_accuracy": None})
            if best is None or val_loss < best["val_loss"]:
                best, worse, best_weights = (
                    {"step": step + 1, "val_loss": val_loss},
                    0,
                    copy.deepcopy(model.state_dict()),
                )
            else:
                worse += 1
            if patience and worse >= patience:
                break
    return SimpleNamespace(history=history, best=best, best_weights=best_weights, steps=step + 1)


# ---- as in torch's ImageNet example: checkpoint.pth.tar, a copy of it called model_best, other keys in the history ------


def save_checkpoint(state, is_best, folder):
    Path(folder).mkdir(parents=True, exist_ok=True)
    torch.save(state, f"{folder}/checkpoint.pth.tar")
    if is_best:
        shutil.copyfile(f"{folder}/checkpoint.pth.tar", f"{folder}/model_best.pth.tar")


@adapt
def like_imagenet(
    model, data, val, loss, run, steps, batch_size, lr, momentum, weight_decay, val_every, save_every, seed
):
    optimizer = SGD(model.parameters(), lr, momentum=momentum, weight_decay=weight_decay)
    best_loss, start, history = math.inf, 0, []
    if run and Path(run, "checkpoint.pth.tar").is_file():
        checkpoint = torch.load(f"{run}/checkpoint.pth.tar", weights_only=False)
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        start, best_loss = checkpoint["steps"], checkpoint["best_loss"]
        set_rng_state(checkpoint["rng"])
    else:
        seed_everything(seed)
    per_epoch = math.ceil(len(data) / batch_size)
    for step in range(start, steps):
        order = shuffled(len(data), seed, step // per_epoch)
        x, y = batch(data, order[step % per_epoch * batch_size :][:batch_size])
        output = model(x)
        train_loss = loss(output, y)
        optimizer.zero_grad()
        train_loss.backward()
        optimizer.step()
        history.append({"iteration": step, "train/loss": train_loss.item()})
        is_best = False
        if val is not None and (step + 1) % (val_every or steps) == 0:
            test_loss = mean_over(model, val, loss, size=5)
            history.append({"iteration": step, "test/loss": test_loss})
            is_best, best_loss = test_loss < best_loss, min(test_loss, best_loss)
        if run and ((step + 1) % save_every == 0 or is_best):
            state = {"steps": step + 1, "state_dict": model.state_dict(), "best_loss": best_loss}
            state |= {"optimizer": optimizer.state_dict(), "rng": rng_state()}
            save_checkpoint(state, is_best, run)
    return SimpleNamespace(history=history, best_loss=best_loss)


# ---- closures: bf16 by hand, the best weights put back into the model at the end ----------------------------------------


@adapt
def with_closures(model, data, val, loss, steps, batch_size, lr, precision, val_every, patience):
    optimizer = SGD(model.parameters(), lr)
    best_loss, best_weights, bad = math.inf, None, 0

    def autocast():
        return torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16")

    def step(x, y):
        optimizer.zero_grad()
        with autocast():
            value = loss(model(x), y)
        value.backward()
        optimizer.step()

    def validate():
        nonlocal best_loss, best_weights, bad
        model.eval()
        with torch.inference_mode(), autocast():
            outputs, targets = zip(*[(model(x), y) for x, y in DataLoader(val, 9)], strict=True)
            value = loss(torch.cat(outputs), torch.cat(targets)).item()
        model.train()
        if value < best_loss:
            best_loss, bad, best_weights = value, 0, {k: v.clone() for k, v in model.state_dict().items()}
        else:
            bad += 1
        return bool(patience) and bad >= patience

    if precision == "fp16":
        raise ValueError("fp16 needs a scaler: choose bf16")
    done = 0
    while done < steps:
        for x, y in DataLoader(data, batch_size, shuffle=True):
            if done == steps:
                break
            step(x, y)
            done += 1
            if val is not None and val_every and done % val_every == 0 and validate():
                steps = done
    if best_weights is not None:
        model.load_state_dict(best_weights)
    return SimpleNamespace(best_val=best_loss)


# ---- a generator that yields; validates before the first step and after every epoch, whoever consumes it ----------------


def training(model, data, val, loss, optimizer, batch_size):
    """Trains for ever: yields the record of each step and of each validation."""
    done = 0
    while True:
        if val is not None:
            yield {"step": done, "val_loss": mean_over(model, val, loss, size=6), "val_accuracy": None}
        for x, y in DataLoader(data, batch_size, shuffle=True):
            optimizer.zero_grad(set_to_none=False)
            value = loss(model(x), y)
            value.backward()
            optimizer.step()
            done += 1
            yield {"step": done, "loss": value.item()}


@adapt
def with_a_generator(model, data, val, loss, steps, batch_size, lr):
    history = []
    for record in training(model, data, val, loss, SGD(model.parameters(), lr), batch_size):
        history.append(record)
        if record["step"] == steps and "loss" in record:
            break
    return SimpleNamespace(history=history)


# ---- accumulation and an average of its own, put into the model for validation -------------------------------------------


class Average:
    def __init__(self, model, decay):
        self.decay = decay
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    def update(self, model):
        with torch.no_grad():
            for name, p in model.named_parameters():
                self.shadow[name].mul_(self.decay).add_(p, alpha=1 - self.decay)

    def swap(self, model):
        """Exchange the model's weights and the average."""
        for name, p in model.named_parameters():
            p.data, self.shadow[name] = self.shadow[name], p.data


@adapt
def accumulating(model, data, val, loss, steps, batch_size, accumulation, lr, ema, val_every, log_every, clip):
    optimizer = SGD(model.parameters(), lr)
    average = Average(model, ema) if ema else None
    records, total, targets, done = [], 0.0, 0, 0
    while done < steps:
        for x, y in DataLoader(data, batch_size, shuffle=True):
            if done == steps:
                break
            in_batch = counted(y)
            for xs, ys in zip(x.tensor_split(accumulation), y.tensor_split(accumulation), strict=True):
                if len(xs) and counted(ys):
                    value = loss(model(xs), ys)
                    (value * counted(ys) / in_batch).backward()
                    total += value.item() * counted(ys)
            targets += in_batch
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
            if average:
                average.update(model)
            done += 1
            if done % log_every == 0 or done == steps:
                records.append({"step": done, "loss": total / targets if targets else None})
                total, targets = 0.0, 0
            if val is not None and (done % (val_every or steps) == 0 or done == steps):
                if average:
                    average.swap(model)
                right = 0
                model.eval()
                with torch.no_grad():
                    for a, b in DataLoader(val, 7):
                        right += int((model(a).argmax(-1) == b).sum())
                records.append(
                    {
                        "step": done,
                        "val_loss": mean_over(model, val, loss, size=7),
                        "val_accuracy": right / sum(counted(b) for _, b in DataLoader(val, 7)),
                    }
                )
                if average:
                    average.swap(model)
    return SimpleNamespace(history=records)


# ---- a sampler that knows its place, torch's AveragedModel, files named by the step, a history like Keras's ---------------


class Resumable(Sampler):
    def __init__(self, n, seed):
        self.n, self.seed, self.epoch, self.place = n, seed, 0, 0

    def __iter__(self):
        yield from shuffled(self.n, self.seed, self.epoch).tolist()[self.place :]

    def __len__(self):
        return self.n


@adapt
def with_a_sampler(model, data, val, run, steps, batch_size, lr, optimizer, ema, seed, save_every, schedule, warmup):
    kinds = {"sgd": partial(SGD, momentum=0.9), "adamw": AdamW}  # torch's own defaults: AdamW decays by 0.01
    optimizer = kinds[optimizer](model.parameters(), lr)

    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        part = (step - warmup) / (steps - warmup)
        return {"constant": 1.0, "cosine": (1 + math.cos(math.pi * part)) / 2, "linear": 1 - part}[schedule]

    scheduler = LambdaLR(optimizer, factor)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(ema), use_buffers=False) if ema else None
    sampler, done, history = Resumable(len(data), seed), 0, defaultdict(list)
    seed_everything(seed)
    saved = sorted(Path(run).glob("step_*.ckpt")) if run else []
    if saved:
        state = torch.load(saved[-1], weights_only=False)
        done, sampler.epoch, sampler.place = state["done"], *state["sampler"]
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        set_rng_state(state["rng"])
        if averaged:
            averaged.load_state_dict(state["averaged"])
    while done < steps:
        # The generator: else each iterator draws its workers' seed from the stream of dropout, a resumed run once more.
        for x, y in DataLoader(data, batch_size, sampler=sampler, generator=torch.Generator()):
            optimizer.zero_grad()
            value = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
            value.backward()
            optimizer.step()
            scheduler.step()
            if averaged:
                averaged.update_parameters(model)
            done += 1
            sampler.place += len(x)
            if sampler.place == len(data):
                sampler.epoch, sampler.place = sampler.epoch + 1, 0
            history["loss"].append(value.item())
            if run and done % save_every == 0:
                Path(run).mkdir(parents=True, exist_ok=True)
                state = {"done": done, "sampler": (sampler.epoch, sampler.place), "rng": rng_state()}
                state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                state |= {"scheduler": scheduler.state_dict(), "averaged": averaged and averaged.state_dict()}
                torch.save(state, f"{run}/step_{done:05}.ckpt")
            if done == steps:
                break
        if val is not None:
            with torch.no_grad():
                shown = averaged.module if averaged else model
                shown.eval()
                total = sum(
                    F.cross_entropy(shown(x).flatten(0, -2), y.flatten(), reduction="sum")
                    for x, y in DataLoader(val, 4)
                )
                shown.train()
            history["val_loss"].append(total.item() / len(val))
    return SimpleNamespace(history=dict(history))


# ---- arrays and JSON in place of torch.save; a history under other names; the average is a copy of the model --------------


@adapt
def with_arrays(model, data, val, loss, run, steps, batch_size, lr, momentum, val_every, save_every, patience, seed):
    """As safetensors does it: a flat dict of arrays in one file, numbers as JSON in another."""
    seed_everything(seed)
    optimizer = SGD(model.parameters(), lr, momentum)
    progress = {"step": 0, "best": None, "worse": 0, "stopped": False}
    names = [name for name, _ in model.named_parameters()]

    def save(name):
        Path(run).mkdir(parents=True, exist_ok=True)
        arrays = {f"model.{key}": tensor.numpy() for key, tensor in model.state_dict().items()}
        for key, p in zip(names, model.parameters(), strict=True):
            if (velocity := optimizer.state[p].get("momentum_buffer")) is not None:
                arrays[f"momentum.{key}"] = velocity.numpy()
        np.savez(f"{run}/{name}.npz", **arrays)
        Path(run, f"{name}.json").write_text(json.dumps(progress))
        Path(run, f"{name}.rng").write_bytes(pickle.dumps(rng_state()))

    if run and Path(run, "latest.json").exists():
        progress |= json.loads(Path(run, "latest.json").read_text())
        with np.load(f"{run}/latest.npz") as arrays:
            loaded = {key: torch.from_numpy(arrays[key]) for key in arrays.files}
        set_rng_state(pickle.loads(Path(run, "latest.rng").read_bytes()))
        model.load_state_dict({key[6:]: t for key, t in loaded.items() if key.startswith("model.")})
        for key, p in zip(names, model.parameters(), strict=True):
            if f"momentum.{key}" in loaded:
                optimizer.state[p]["momentum_buffer"] = loaded[f"momentum.{key}"]
    per_epoch = math.ceil(len(data) / batch_size)
    log = []
    while progress["step"] < steps and not progress["stopped"]:
        epoch, place = divmod(progress["step"], per_epoch)
        x, y = batch(data, shuffled(len(data), seed, epoch)[place * batch_size :][:batch_size])
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        progress["step"] += 1
        log.append({"step": progress["step"], "train_loss": float(value.detach())})
        if val is not None and val_every and progress["step"] % val_every == 0:
            valid_loss = mean_over(model, val, loss, size=len(val) // 2)
            log.append({"step": progress["step"], "valid_loss": valid_loss})
            if progress["best"] is None or valid_loss < progress["best"]:
                progress |= {"best": valid_loss, "worse": 0}
                if run:
                    save("best")
            else:
                progress["worse"] += 1
                progress["stopped"] = patience > 0 and progress["worse"] >= patience
        if run and progress["step"] % save_every == 0:
            save("latest")
    return SimpleNamespace(history=log, steps=progress["step"])


# ---- a class that pickles itself, with callbacks ----------------------------------------------------------------------


class Learner:
    def __init__(self, model, data, loss, batch_size, lr, callbacks):
        self.model, self.data, self.loss, self.batch_size = model, data, loss, batch_size
        self.optimizer, self.callbacks, self.done = SGD(model.parameters(), lr), callbacks, 0

    def fit(self, steps):
        while self.done < steps:
            for x, y in DataLoader(self.data, self.batch_size, shuffle=True):
                self.optimizer.zero_grad()
                self.value = self.loss(self.model(x), y)
                self.value.backward()
                for callback in self.callbacks:
                    callback.after_backward(self)
                self.optimizer.step()
                self.done += 1
                for callback in self.callbacks:
                    callback.after_step(self)
                if self.done >= steps:
                    return


class Callback:
    def after_backward(self, learner): ...
    def after_step(self, learner): ...


class Clip(Callback):
    def __init__(self, limit):
        self.limit = limit

    def after_backward(self, learner):
        learner.norm = nn.utils.get_total_norm([p.grad for p in learner.model.parameters()])
        if self.limit:
            nn.utils.clip_grads_with_norm_(learner.model.parameters(), self.limit, learner.norm)


class History(Callback):
    def __init__(self):
        self.records = []

    def after_step(self, learner):
        self.records.append({"step": learner.done, "grad_norm": learner.norm.item(), "loss": learner.value.item()})


class KeepBest(Callback):
    """Validates every `every` steps, and keeps a copy of the whole model."""

    def __init__(self, val, every):
        self.val, self.every, self.lowest, self.best_model = val, every, math.inf, None

    def after_step(self, learner):
        if self.val is None or not self.every or learner.done % self.every:
            return
        value = mean_over(learner.model, self.val, learner.loss, size=3)
        if value < self.lowest:
            self.lowest, self.best_model = value, copy.deepcopy(learner.model)


@adapt
def with_callbacks(model, data, val, loss, steps, batch_size, lr, clip, val_every):
    history, keeper = History(), KeepBest(val, val_every)
    Learner(model, data, loss, batch_size, lr, [Clip(clip), history, keeper]).fit(steps)
    best = {"val_loss": keeper.lowest} if keeper.best_model else None
    return SimpleNamespace(history=history.records, best=best, best_weights=keeper.best_model)


# ---- all is written into it, clipping, bf16, OneCycle: there is no parameter for any of them ---------------------------


@adapt
def all_fixed(model, data, val, loss, steps, batch_size, lr):
    optimizer = SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
    scheduler = OneCycleLR(optimizer, max_lr=lr, total_steps=steps + 1)
    done = 0
    while done < steps:
        for x, y in DataLoader(data, batch_size, shuffle=True):
            if done < steps:
                with torch.autocast("cpu", torch.bfloat16):
                    value = loss(model(x), y)
                optimizer.zero_grad()
                value.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                scheduler.step()
                done += 1
        if val is not None:
            mean_over(model, val, loss)


# ---- the optimizer by name, its schedule fixed; the last epoch is whole, its log one line an epoch ---------------------


@adapt
def by_epochs(model, data, val, loss, steps, batch_size, lr, optimizer, accumulation):
    kind = {"sgd": SGD, "adamw": AdamW}[optimizer]
    loader = DataLoader(data, batch_size, shuffle=True)
    epochs = math.ceil(steps / len(loader))
    optimizer = kind(model.parameters(), lr=lr)
    scheduler = LambdaLR(optimizer, lambda epoch: 0.5**epoch)
    history = []
    for epoch in range(epochs):
        total = targets = 0
        for x, y in loader:
            optimizer.zero_grad()
            for xs, ys in zip(x.chunk(accumulation), y.chunk(accumulation), strict=True):
                summed = loss(model(xs), ys) * counted(ys)
                (summed / max(1, counted(y))).backward()
                total, targets = total + summed.item(), targets + counted(ys)
            optimizer.step()
        scheduler.step()
        record = {"step": (epoch + 1) * len(loader), "epoch": epoch, "loss": total / targets}
        if val is not None:
            record |= {"val_loss": mean_over(model, val, loss, size=1)}
        history.append(record)
    return SimpleNamespace(history=history)


# ---- whole models in files, by pickle; SAM, whose second gradient is that of other weights; an update by hand -------------


@adapt
def with_whole_models(model, data, val, loss, run, steps, batch_size, lr, val_every):
    optimizer, lowest, done = SGD(model.parameters(), lr), math.inf, 0
    while done < steps:
        for x, y in DataLoader(data, batch_size, shuffle=True):
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
            done += 1
            if val is not None and val_every and done % val_every == 0:
                value = mean_over(model, val, loss)
                if run and value < lowest:
                    Path(run).mkdir(parents=True, exist_ok=True)
                    torch.save(model, Path(run, "best_model.pth"))
                lowest = min(lowest, value)
            if done == steps:
                break
    if run and Path(run, "best_model.pth").exists():
        model.load_state_dict(torch.load(Path(run, "best_model.pth"), weights_only=False).state_dict())


@adapt
def sharpness_aware(model, data, loss, steps, batch_size, lr):
    optimizer = SGD(model.parameters(), lr)
    for _ in range(steps // math.ceil(len(data) / batch_size)):
        for x, y in DataLoader(data, batch_size, shuffle=True):
            before = [p.detach().clone() for p in model.parameters()]
            loss(model(x), y).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p += 0.05 * p.grad
            optimizer.zero_grad()
            loss(model(x), y).backward()
            with torch.no_grad():
                for p, w in zip(model.parameters(), before, strict=True):
                    p.copy_(w)
            optimizer.step()
            optimizer.zero_grad()


@adapt
def by_hand(model, data, steps, batch_size, lr):
    for _ in range(math.ceil(steps * batch_size / len(data))):
        for x, y in DataLoader(data, batch_size, shuffle=True):
            model.zero_grad()
            F.cross_entropy(model(x), y).backward()
            with torch.no_grad():
                for p in model.parameters():
                    p -= lr * p.grad


RIGHT = {
    "functions": with_functions,
    "like torch's ImageNet example": like_imagenet,
    "closures": with_closures,
    "a generator": with_a_generator,
    "accumulation and an average": accumulating,
    "a sampler of its own": with_a_sampler,
    "arrays and JSON": with_arrays,
    "callbacks": with_callbacks,
    "all is fixed": all_fixed,
    "by epochs": by_epochs,
    "whole models": with_whole_models,
    "SAM": sharpness_aware,
    "by hand": by_hand,
}
