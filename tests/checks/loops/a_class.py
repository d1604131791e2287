"""A right loop as a class: its attributes are the state, and each checkpoint is a file named by its step."""

import copy
import math
from pathlib import Path

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, Subset

from utils.checks.any_loop import adapt
from utils.device import rng_state, seed_everything, set_rng_state


class Trainer:
    def __init__(self, model, data, val, loss, folder, **settings):
        self.model, self.data, self.val, self.loss, self.folder = model, data, val, loss, folder
        self.__dict__ |= settings
        self.optimizer = torch.optim.SGD(model.parameters(), self.lr, momentum=self.momentum)
        self.averaged = AveragedModel(model, avg_fn=self.mean_of_two) if self.ema else None
        self.epoch = self.seen_in_epoch = self.done = 0
        self.lowest, self.best, self.since_best, self.best_weights = math.inf, None, 0, None
        self.history = []
        if self.ema:
            self.averaged.n_averaged += 1  # the first weights count as an average already

    def mean_of_two(self, average, weight, number):
        return self.ema * average + (1 - self.ema) * weight

    def mean(self, outputs, targets):
        return self.loss(outputs, targets)

    def fit(self):
        seed_everything(self.seed)
        if self.folder and (saved := sorted(Path(self.folder).glob("*.ckpt"))):
            self.load(torch.load(saved[-1], weights_only=False))
        self.model.train()
        while not self.finished():
            self.one_epoch()

    def finished(self):
        return self.done >= self.steps or (self.patience > 0 and self.since_best >= self.patience)

    def one_epoch(self):
        rows = self.order()
        rest = Subset(self.data, rows[self.seen_in_epoch :])
        for x, y in DataLoader(rest, self.batch_size, generator=torch.Generator()):  # not from dropout's stream
            self.step(x, y)
            self.done += 1
            self.seen_in_epoch += len(x)
            if self.seen_in_epoch >= len(rows):
                self.epoch, self.seen_in_epoch = self.epoch + 1, 0
            self.after_step()
            if self.finished():
                return

    def order(self):
        generator = torch.Generator().manual_seed(self.seed * 777 + self.epoch)
        return torch.randperm(len(self.data), generator=generator).tolist()

    def step(self, x, y):
        self.optimizer.zero_grad()
        targets = y.ne(-100).sum()
        for part, labels in zip(x.chunk(self.accumulation), y.chunk(self.accumulation), strict=True):
            share = labels.ne(-100).sum() / targets
            value = self.mean(self.model(part), labels)
            (value * share).backward()
        self.set_rate(self.done)
        self.optimizer.step()
        if self.averaged:
            self.averaged.update_parameters(self.model)

    def set_rate(self, step):
        for group in self.optimizer.param_groups:
            group["lr"] = self.lr
            if self.schedule == "cosine":
                group["lr"] *= (1 + math.cos(math.pi * step / self.steps)) / 2

    def after_step(self):
        if self.val is not None and self.done % (self.val_every or self.steps) == 0:
            self.keep_the_best(self.validation_loss(self.averaged.module if self.averaged else self.model))
        if self.folder and self.done % self.save_every == 0:
            Path(self.folder).mkdir(parents=True, exist_ok=True)
            torch.save(self.state(), Path(self.folder, f"{self.done:06}.ckpt"))

    @torch.inference_mode()
    def validation_loss(self, model: nn.Module):
        model.eval()
        losses, targets = 0.0, 0
        for x, y in DataLoader(self.val, 5, generator=torch.Generator()):
            here = int(y.ne(-100).sum())
            losses += float(self.mean(model(x), y)) * here
            targets += here
        model.train()
        return losses / targets

    def keep_the_best(self, loss):
        self.history.append({"step": self.done, "val_loss": loss})
        self.since_best += 1
        if loss < self.lowest:
            self.lowest, self.best, self.since_best = loss, {"step": self.done, "val_loss": loss}, 0
            self.best_weights = copy.deepcopy(self.model.state_dict())

    def state(self):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "streams": rng_state()}
        if self.averaged:
            state["averaged"] = self.averaged.state_dict()
        return state | {name: getattr(self, name) for name in self.numbers}

    numbers = ("epoch", "seen_in_epoch", "done", "lowest", "best", "best_weights", "since_best")

    def load(self, state):
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.averaged:
            self.averaged.load_state_dict(state["averaged"])
        set_rng_state(state["streams"])
        for name in self.numbers:
            setattr(self, name, state[name])


@adapt
def loop(
    *, model, data, val, run, loss, steps, batch_size, accumulation, seed, lr, momentum, schedule, ema, val_every,
    save_every, patience,
):  # fmt: skip
    trainer = Trainer(
        model, data, val, loss, run, steps=steps, batch_size=batch_size, accumulation=accumulation, seed=seed, lr=lr,
        momentum=momentum, schedule=schedule, ema=ema, val_every=val_every, save_every=save_every, patience=patience,
    )  # fmt: skip
    trainer.fit()
    return {"history": trainer.history, "best": trainer.best, "best_weights": trainer.best_weights}
