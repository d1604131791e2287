"""Right training loops in other styles than utils.loop, each adapted for the detectors in a few lines.

The methods of the two large ones are what test_any_loop.py overrides, one at a time, to plant a bug.
"""

import math
from functools import partial
from itertools import chain, islice, repeat
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_, get_total_norm
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, default_collate

from utils.checks.any_loop import adapt
from utils.device import rng_state, seed_everything, set_rng_state

DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}


def targets_in(y) -> int:
    return max(1, int(y.ne(-100).sum()) if y.dtype == torch.int64 else y.numel())


# ---- a class: GradScaler skips its bad steps, and one file of its own holds the state --------------------------------


class Trainer:
    def __init__(self, model, loss, folder, precision, **settings):
        self.__dict__ |= settings
        self.model, self.loss, self.precision, self.done = model, loss, precision, 0
        self.file = folder and Path(folder, "last.pth")
        self.optimizer = self.make_optimizer(
            [p for p in model.parameters() if p.ndim > 1], [p for p in model.parameters() if p.ndim == 1]
        )
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16 if precision == "fp16" else 1.0)

    def make_optimizer(self, matrices, others):
        groups = [{"params": matrices, "weight_decay": self.weight_decay}, {"params": others, "weight_decay": 0.0}]
        if self.optimizer == "sgd":
            return SGD(groups, lr=self.lr, momentum=self.momentum)
        return AdamW(groups, lr=self.lr)

    def fit(self, data, val):
        seed_everything(self.seed)
        if self.file and self.file.exists():
            self.restore(torch.load(self.file, weights_only=False))
        self.model.train()
        while self.done < self.steps:
            epoch, place = divmod(self.done, math.ceil(len(data) / self.batch_size))
            rows = self.order(len(data), epoch)[place * self.batch_size :][: self.batch_size]
            self.one_step(*default_collate([data[i] for i in rows]))
            self.done += 1
            if val is not None and self.done % (self.val_every or self.steps) == 0:
                self.validate(val)
            if self.file and self.done % self.save_every == 0:
                self.file.parent.mkdir(exist_ok=True)
                torch.save(self.state(), self.file)

    def order(self, examples, epoch):
        return np.random.default_rng((self.seed, epoch)).permutation(examples).tolist()

    def one_step(self, x, y):
        self.set_rates()
        for part, targets in zip(x.tensor_split(self.accumulation), y.tensor_split(self.accumulation), strict=True):
            if len(part):
                share = targets_in(targets) / targets_in(y)
                self.scaler.scale(self.loss(self.forward(part), targets) * share).backward()
        self.scaler.unscale_(self.optimizer)
        norm = get_total_norm([p.grad for p in self.model.parameters() if p.grad is not None])
        if self.nonfinite == "raise" and self.precision != "fp16" and not norm.isfinite():
            raise FloatingPointError(f"the gradient's norm is {norm}")
        if self.clip:
            self.clip_to(self.clip)
        self.scaler.step(self.optimizer)  # does not call optimizer.step() if a gradient is not finite
        self.scaler.update()
        self.optimizer.zero_grad()

    def forward(self, x):
        with torch.autocast("cpu", DTYPES.get(self.precision), enabled=self.precision in DTYPES):
            return self.model(x)

    def clip_to(self, limit):
        clip_grad_norm_(self.model.parameters(), limit)

    def rate(self):
        cosine = (1 + math.cos(math.pi * self.done / self.steps)) / 2
        return self.lr * (cosine if self.schedule == "cosine" else 1.0)

    def set_rates(self):
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate()

    @torch.no_grad()
    def validate(self, val):
        self.model.eval()
        for x, y in DataLoader(val, 8):
            self.loss(self.forward(x), y)
        self.model.train()

    def state(self):
        held = {name: getattr(self, name).state_dict() for name in ("model", "optimizer", "scaler")}
        return held | {"streams": rng_state(), "done": self.done}

    def restore(self, state):
        for name in ("model", "optimizer", "scaler"):
            getattr(self, name).load_state_dict(state[name])
        set_rng_state(state["streams"])
        self.done = state["done"]


def in_a_class(kind=Trainer):
    """A Trainer, or a wrong one, for the detectors."""

    @adapt
    def loop(
        *, model, data, val, run, loss, steps, batch_size, accumulation, seed, optimizer, lr, momentum, weight_decay,
        schedule, clip, precision, nonfinite, val_every, save_every,
    ):  # fmt: skip
        kind(
            model, loss, run, precision, steps=steps, batch_size=batch_size, accumulation=accumulation, seed=seed,
            optimizer=optimizer, lr=lr, momentum=momentum, weight_decay=weight_decay, schedule=schedule, clip=clip,
            nonfinite=nonfinite, val_every=val_every, save_every=save_every,
        ).fit(data, val)  # fmt: skip

    return loop


# ---- a module with a training_step, and a runner that calls it: step(closure), a checkpoint after each epoch ---------


class Lit:
    """What its user writes."""

    def __init__(self, net, optimizer, lr, weight_decay, momentum, decays_over):
        self.net, self.kind, self.lr, self.steps = net, optimizer, lr, decays_over
        self.weight_decay, self.momentum = weight_decay, momentum

    def training_step(self, x, y):
        return mean_loss(self.net, x, y)

    def validation_step(self, x, y):
        return self.training_step(x, y)

    def configure_optimizers(self):
        if self.kind == "sgd":
            optimizer = SGD(self.net.parameters(), self.lr, self.momentum, weight_decay=self.weight_decay)
        else:
            optimizer = AdamW(self.net.parameters(), self.lr, weight_decay=self.weight_decay)
        return optimizer, LambdaLR(optimizer, self.factor)

    def factor(self, step):
        return (1 + math.cos(math.pi * step / self.steps)) / 2 if self.steps else 1.0


class Runner:
    """What the library does with it."""

    def __init__(self, max_steps, gradient_clip_val, seed, folder):
        self.max_steps, self.limit, self.seed, self.folder = max_steps, gradient_clip_val, seed, folder

    def fit(self, lit, loader, val_loader):
        seed_everything(self.seed)
        self.optimizer, self.scheduler = lit.configure_optimizers()
        self.step = epoch = 0
        saved = sorted(Path(self.folder).glob("epoch=*.ckpt")) if self.folder else []
        if saved:
            epoch = self.restore(lit, torch.load(saved[-1], weights_only=False))
        lit.net.train()
        while self.step < self.max_steps:
            loader.generator.manual_seed(self.seed_of(epoch))
            for x, y in loader:
                if self.step < self.max_steps:
                    self.optimizer.step(lambda x=x, y=y: self.closure(lit, x, y))
                    self.scheduler.step()
                    self.step += 1
            if val_loader:
                self.validate(lit, val_loader)
            if self.folder:
                Path(self.folder).mkdir(exist_ok=True)
                torch.save(self.state(lit, epoch), Path(self.folder, f"epoch={epoch}.ckpt"))
            epoch += 1

    def seed_of(self, epoch):
        return 1_000 * self.seed + epoch

    def closure(self, lit, x, y):
        self.optimizer.zero_grad()
        loss = lit.training_step(x, y)
        loss.backward()
        if self.limit:
            self.clip(lit.net.parameters())
        return loss

    def clip(self, parameters):
        clip_grad_norm_(parameters, self.limit)

    @torch.no_grad()
    def validate(self, lit, loader):
        lit.net.eval()
        for x, y in loader:
            lit.validation_step(x, y)
        lit.net.train()

    def state(self, lit, epoch):
        held = {"net": lit.net, "optimizer": self.optimizer, "scheduler": self.scheduler}
        state = {name: part.state_dict() for name, part in held.items()}
        return state | {"streams": rng_state(), "epoch": epoch, "step": self.step}

    def restore(self, lit, state):
        """The epoch to go on with."""
        lit.net.load_state_dict(state["net"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scheduler.load_state_dict(state["scheduler"])
        set_rng_state(state["streams"])
        self.step = state["step"]
        return state["epoch"] + 1


def like_lightning(module=Lit, runner=Runner):
    """A module and its runner, one of them perhaps wrong, for the detectors."""

    @adapt
    def loop(model, data, val, run, steps, batch_size, seed, optimizer, lr, momentum, weight_decay, schedule, clip):
        lit = module(model, optimizer, lr, weight_decay, momentum, decays_over=steps if schedule == "cosine" else 0)
        loader = DataLoader(data, batch_size, shuffle=True, generator=torch.Generator())
        runner(steps, clip, seed, run).fit(lit, loader, val and DataLoader(val, batch_size))

    return loop


# ---- short ones ------------------------------------------------------------------------------------------------------


def shuffled(data, batch_size, steps):
    return islice(chain.from_iterable(repeat(DataLoader(data, batch_size, shuffle=True))), steps)


def mean_loss(model, x, y):
    return F.cross_entropy(model(x).flatten(0, -2), y.flatten())


@adapt
def ten_lines(model, data, steps, batch_size, lr):
    optimizer = SGD(model.parameters(), lr)
    for x, y in shuffled(data, batch_size, steps):
        optimizer.zero_grad()
        mean_loss(model, x, y).backward()
        optimizer.step()


@adapt
def two_optimizers(model, data, steps, batch_size, lr):
    matrices, others = ([p for p in model.parameters() if (p.ndim > 1) == many] for many in (True, False))
    optimizers = SGD(matrices, lr), AdamW(others, lr)
    for x, y in shuffled(data, batch_size, steps):
        mean_loss(model, x, y).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()


@adapt
def step_in_backward(model, data, steps, batch_size, lr):
    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    optimizers = {p: SGD([p], lr) for p in model.parameters()}
    for p in optimizers:
        p.register_post_accumulate_grad_hook(step)
    for x, y in shuffled(data, batch_size, steps):
        mean_loss(model, x, y).backward()


@adapt
def grad_scaler(model, data, loss, steps, batch_size, lr, optimizer, momentum, weight_decay, precision):
    """As torch's own recipe has it: what is not finite is skipped, and never raises."""
    if optimizer == "sgd":
        optimizer = SGD(model.parameters(), lr, momentum, weight_decay=weight_decay)
    else:
        optimizer = AdamW(model.parameters(), lr, weight_decay=weight_decay)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in shuffled(data, batch_size, steps):
        optimizer.zero_grad()
        with torch.autocast("cpu", DTYPES.get(precision), enabled=precision in DTYPES):
            value = loss(model(x), y)
        scaler.scale(value).backward()
        scaler.step(optimizer)
        scaler.update()


@adapt
def closure(model, data, steps, batch_size, lr):
    def forward_and_backward(x, y):
        optimizer.zero_grad()
        value = mean_loss(model, x, y)
        value.backward()
        return value

    optimizer = SGD(model.parameters(), lr)
    for x, y in shuffled(data, batch_size, steps):
        optimizer.step(partial(forward_and_backward, x, y))


STYLES = {
    "a class with a file of its own": in_a_class(),
    "like Lightning, by epochs": like_lightning(),
    "ten lines": ten_lines,
    "two optimizers": two_optimizers,
    "a step in backward": step_in_backward,
    "a step that GradScaler skips": grad_scaler,
    "step(closure)": closure,
}
