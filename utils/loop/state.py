"""Everything that a training step reads and writes, and therefore everything in a checkpoint."""

import copy
import math
from dataclasses import asdict
from functools import partial

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

from utils.data.order import derive_seed
from utils.device import autocast, rng_state, seed_everything, set_rng_state
from utils.distributed.parallel import broadcast_initial_state, copy_full, shard_all, shard_state, sharded, wrap_ddp
from utils.distributed.ranks import SINGLE_PROCESS, Ranks
from utils.loop import checkpoint
from utils.loop.config import Config
from utils.loop.guards import Guard, all_finite, put_back
from utils.loop.metrics import Mean
from utils.loop.optim import Ema, lr_factor, make_optimizer
from utils.loop.own_optimizer import made_by

PROGRESS = ("step", "skipped", "skipped_steps", "parts", "best", "worse", "stopped_early", "seconds")


class State:
    def __init__(
        self, model: nn.Module, config: Config, device: torch.device, ranks: Ranks = SINGLE_PROCESS, optimizer=None
    ):
        self.config, self.device, self.ranks = config, device, ranks
        if not model.training:
            model.train()  # left in eval mode by mistake; freeze modules on purpose after calling model.train()
        broadcast_initial_state(model, ranks)
        self.original_model = model
        in_parts = ranks.world > 1 and config.parallel == "fsdp"
        copied = partial(sharded, ranks=ranks, device=device) if in_parts else copy.deepcopy
        self.model = model = copied(model) if in_parts else model.to(device)
        self.forward = wrap_ddp(torch.compile(model) if config.compile else model, ranks, device)
        if ranks.rank > 0:
            seed_everything(derive_seed(config.seed, "rank", ranks.rank))  # each rank needs its own dropout masks
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.finite = [name for name, b in model.named_buffers() if all_finite([b])]  # a mask may hold -inf
        self.optimizer = made_by(optimizer, model, config) if optimizer else make_optimizer(model, config)
        self.scheduler = LambdaLR(self.optimizer, partial(lr_factor, config))
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "fp16")
        self.raises = config.nonfinite == "raise" and not self.scaler.is_enabled()  # with a scaler overflow is normal
        self.guard = Guard(self.optimizer, device, limit=1 if self.raises else config.max_skips)
        self.ema = Ema(self.original_model, config.ema, copied) if config.ema else None
        self.train_loss = Mean(device)  # since the last log record
        self.norm = torch.zeros((), device=device)  # of the last gradient, before clipping
        self.autocast = autocast(device, config.precision)  # can be entered many times
        self.step, self.skipped, self.skipped_steps = 0, 0, []  # steps made; blocked ones; those not yet in the log
        self.parts = config.accumulation  # micro-batches per step; doubled when memory runs out
        self.fewest = math.inf  # examples that the rank with the fewest has in this step
        self.best, self.best_weights = None, None  # step and loss; a copy of the weights, if there is no run folder
        self.worse, self.stopped_early, self.seconds = 0, False, 0.0  # worse: validations since the best

    def due(self, every: int) -> bool:
        return self.step == self.config.steps or (every > 0 and self.step % every == 0)

    @property
    def evaluated(self) -> nn.Module:
        """The model to validate: the average, if there is one. Its buffers are rank 0's."""
        self.ranks.copy_from_first(list(self.model.buffers()))
        if self.ema:
            self.ema.copy_buffers(self.model)
        return self.ema.model if self.ema else self.model

    def gathered(self, model: nn.Module | None) -> nn.Module | None:
        """The model or the average, unsharded on every rank; the model is the caller's original one."""
        if model is None or self.model is self.original_model:
            return model
        target = self.original_model if model is self.model else copy.deepcopy(self.original_model).eval()
        return copy_full(target, model)

    def is_best(self, val_loss: float) -> bool:
        """Whether this validation is the best so far; stops the run when patience is exhausted."""
        better = self.best is None or val_loss < self.best["val_loss"] - self.config.min_delta
        if better and math.isfinite(val_loss):
            self.best, self.worse = {"step": self.step, "val_loss": val_loss}, 0
            return True
        self.worse += 1
        self.stopped_early = 0 < self.config.patience <= self.worse
        return False

    def state_dict(self) -> dict:
        streams, *others = self.ranks.gather(rng_state())
        return {
            "config": asdict(self.config),
            "model": (model := self.model.state_dict()),
            "ema": self.evaluated.state_dict() if self.ema else None,
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "guard": self.guard.state_dict(),
            "train_loss": self.train_loss.over(self.ranks).sums,
            "rng": streams,
            "progress": {name: getattr(self, name) for name in PROGRESS},
        } | {"buffers": {n: b for n, b in self.model.named_buffers() if n not in model}, "rng_of_other_ranks": others}

    def load_state_dict(self, saved: dict) -> None:
        """Restore a state_dict of the same config, from any number of ranks. ValueError if it is of another model."""
        checkpoint.require_same_tensors(saved["model"], self.model.state_dict())
        checkpoint.require_same_trained(saved["optimizer"], self.optimizer.state_dict())
        self.model.load_state_dict(shard_all(saved["model"], self.model))
        put_back(self.model, saved.get("buffers", {}))
        if self.ema:
            self.ema.model.load_state_dict(shard_all(saved["ema"], self.ema.model))
        self.optimizer.load_state_dict(saved["optimizer"])
        shard_state(self.optimizer, saved["optimizer"])
        for name in ("scheduler", "scaler", "guard"):
            getattr(self, name).load_state_dict(saved[name])
        for name in PROGRESS:
            setattr(self, name, saved["progress"].get(name, getattr(self, name)))
        rank, others = self.ranks.rank, saved.get("rng_of_other_ranks", [])
        self.train_loss = Mean(self.device, saved["train_loss"] if rank == 0 else (0.0, 0))  # counted once, on rank 0
        if rank <= len(others):
            set_rng_state(others[rank - 1] if rank else saved["rng"])
        else:  # the saved run had fewer ranks
            seed_everything(derive_seed(self.config.seed, "rank", rank, self.step))
