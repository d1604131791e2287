"""Everything that a training step reads and writes, and therefore everything in a checkpoint."""

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from operator import methodcaller

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils._pytree import tree_leaves, tree_map_only

from utils.data.order import derive_seed
from utils.device import autocast, rng_state, seed_everything, set_rng_state
from utils.distributed.parallel import (
    broadcast_initial_state,
    copy_full,
    shard_all,
    shard_like,
    shard_model,
    shard_state,
    to_local,
    wrap_ddp,
)
from utils.distributed.ranks import SINGLE_PROCESS, Ranks
from utils.loop import checkpoint
from utils.loop.config import Config
from utils.loop.guards import Guard, all_finite, put_back
from utils.loop.metrics import Mean
from utils.loop.optim import (
    has_modes,
    lr_factor,
    make_optimizer,
    optimizer_from,
    require_all_saved,
    require_numbers_that_last,
)

# The attributes of State that a checkpoint holds under "progress", and what older versions called two of them.
PROGRESS = (
    *("step", "skipped", "skipped_steps", "n_micro_batches"),
    *("best", "validations_without_improvement", "stopped_early", "seconds"),
)
FORMER_NAMES = {"parts": "n_micro_batches", "worse": "validations_without_improvement"}


class State:
    def __init__(
        self,
        model: nn.Module,
        config: Config,
        device: torch.device,
        ranks: Ranks = SINGLE_PROCESS,
        optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
    ):
        self.config = config
        self.device = device
        self.ranks = ranks
        if not model.training:
            model.train()  # left in eval mode by mistake; freeze modules on purpose after calling model.train()
        broadcast_initial_state(model, ranks)
        self.original_model = model
        if ranks.world > 1 and config.parallel == "fsdp":
            make_copy = partial(shard_model, ranks=ranks, device=device)
            model = make_copy(model)
        else:
            make_copy = copy.deepcopy
            model = model.to(device)
        self.model = model
        if ranks.rank > 0:
            seed_everything(derive_seed(config.seed, "rank", ranks.rank))  # each rank needs its own dropout masks
        if optimizer:
            self.optimizer = optimizer_from(optimizer, model, config)
            self._take_over_changes()
        else:
            self.optimizer = make_optimizer(model, config)
        self.forward = wrap_ddp(torch.compile(model) if config.compile else model, ranks, device)
        self.all_parameters = list(model.parameters())
        self.trains = [p.requires_grad for p in self.all_parameters]  # of each
        self.parameters = [p for p in self.all_parameters if p.requires_grad]
        require_numbers_that_last(self.parameters, config)
        if has_modes(self.optimizer):
            self.optimizer.train()
        self.training_weights = None  # while the optimizer is in eval mode
        self.first_attributes = attributes_of(model)  # a forward pass may count, or keep a recurrent state
        # Buffers that must stay finite: those that are so at the start. A mask may hold -inf.
        self.finite_buffers = [name for name, buffer in model.named_buffers() if all_finite([buffer])]
        self.scheduler = LambdaLR(self.optimizer, partial(lr_factor, config))
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "fp16")
        # With a scaler overflow is normal: the step is skipped and the scale lowered.
        self.raises_on_nonfinite = config.nonfinite == "raise" and not self.scaler.is_enabled()
        self.guard = Guard(self.optimizer, device, limit=1 if self.raises_on_nonfinite else config.max_skips)
        self.ema = Ema(self.original_model, config.ema, make_copy) if config.ema else None
        self.train_loss = Mean(device)  # since the last log record
        self.norm = torch.zeros((), device=device)  # of the last gradient, before clipping
        self.autocast = autocast(device, config.precision)  # can be entered many times
        self.step = 0  # steps made
        self.skipped = 0  # those that were blocked
        self.skipped_steps = []  # which, of those not yet in the log
        self.n_micro_batches = config.accumulation  # per step; doubled when memory runs out
        self.additive = True  # whether the loss of a batch is the sum of its parts': tried before the first step
        self.smallest_share = math.inf  # the smallest number of examples that any rank has in this step
        self.best = None  # the step and the loss of the best validation
        self.best_weights = None  # a copy of the weights validated then, if there is no run folder
        self.validations_without_improvement = 0  # since the best
        self.stopped_early = False
        self.seconds = 0.0

    def _take_over_changes(self) -> None:
        """What the function that has made the optimizer has done to the model: adapters that it added, layers it froze.

        Raises ValueError for a model that is sharded already.
        """
        if self.model is self.original_model:
            self.model.to(self.device)
            broadcast_initial_state(self.model, self.ranks)
            return
        before, now = (
            [(name, p.requires_grad) for name, p in model.named_parameters()]
            for model in (self.original_model, self.model)
        )
        if before != now:
            name, _ = min(set(now) - set(before) or set(before) - set(now))
            raise ValueError(
                f"the function that makes the optimizer has added, frozen or freed {name}, of a model that is sharded by "
                "then: do so before train, to the model itself"
            )

    def require_same_training(self) -> None:
        """Raises RuntimeError if a parameter was frozen or set free since the run began: nobody else would know of it."""
        now = [p.requires_grad for p in self.all_parameters]
        if now == self.trains:
            return
        number = next(i for i, (one, other) in enumerate(zip(now, self.trains, strict=True)) if one != other)
        names = [name for name, p in self.model.named_parameters() if p is self.all_parameters[number]]
        raise RuntimeError(
            f"{(names or ['a parameter'])[0]} was {'set free' if now[number] else 'frozen'} during the run: the optimizer, "
            "the clipping and the average know what trained when it began. Call train once for each part, and "
            "requires_grad_() in between: the second goes on from the weights of the first"
        )

    def require_same_parameters(self) -> None:
        """Raises RuntimeError if the model has other parameters than when the run began, which no step would move."""
        known = {id(p) for p in self.all_parameters}
        named = dict(self.model.named_parameters())
        new = [name for name, p in named.items() if id(p) not in known]
        if new or len(named) != len(known):
            raise RuntimeError(
                f"{new[0] if new else 'a parameter'} of the model has come or gone during the run, unknown to the "
                "optimizer: call train once for each shape of the model, or change values only, by copy_()"
            )

    @contextmanager
    def weights_to_evaluate(self) -> Iterator[None]:
        """Within the block the weights are those that the optimizer wants evaluated and saved; most know no others.

        Afterwards they are as before to the bit, which its train() alone would not do. An error leaves them.
        """
        if not has_modes(self.optimizer) or self.training_weights is not None:
            yield
            return
        self.training_weights = [p.detach().clone() for p in self.parameters]
        self.optimizer.eval()
        yield
        self._train_on(self.training_weights)
        self.training_weights = None

    def _train_on(self, weights: list[Tensor]) -> None:
        self.optimizer.train()
        with torch.no_grad():
            for parameter, weight in zip(self.parameters, weights, strict=True):
                parameter.copy_(weight)

    def due(self, every: int) -> bool:
        return self.step == self.config.steps or (every > 0 and self.step % every == 0)

    @property
    def validation_model(self) -> nn.Module:
        """The model to validate: the average, if there is one. Its buffers are rank 0's."""
        self.ranks.copy_from_first(list(self.model.buffers()))
        if self.ema:
            self.ema.copy_buffers(self.model)
        return self.ema.model if self.ema else self.model

    def whole_model(self, model: nn.Module) -> nn.Module:
        """The model or the average, unsharded on every rank; the model is the caller's original one."""
        if self.model is self.original_model:
            return model
        target = self.original_model if model is self.model else copy.deepcopy(self.original_model).eval()
        return copy_full(target, model)

    def is_best(self, val_loss: float) -> bool:
        """Whether this validation is the best so far; stops the run when patience is exhausted."""
        better = self.best is None or val_loss < self.best["val_loss"] - self.config.min_delta
        if better and math.isfinite(val_loss):
            self.best = {"step": self.step, "val_loss": val_loss}
            self.validations_without_improvement = 0
            return True
        self.validations_without_improvement += 1
        self.stopped_early = 0 < self.config.patience <= self.validations_without_improvement
        return False

    def state_dict(self) -> dict:
        require_all_saved(self.optimizer)
        rng, *rng_of_other_ranks = self.ranks.gather(rng_state())
        model = self.model.state_dict()
        attributes = {
            name: tree_map_only(Tensor, Tensor.detach, value)
            for name, value in attributes_of(self.model).items()
            if value is not self.first_attributes.get(name)
        }
        return {
            "config": asdict(self.config),
            "model": model,
            "ema": self.validation_model.state_dict() if self.ema else None,
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "guard": self.guard.state_dict(),
            "train_loss": self.train_loss.over(self.ranks).sums,
            "rng": rng,
            "progress": {name: getattr(self, name) for name in PROGRESS},
            "buffers": {name: buffer for name, buffer in self.model.named_buffers() if name not in model},
            "rng_of_other_ranks": rng_of_other_ranks,
            **({"training_weights": self.training_weights} if self.training_weights is not None else {}),
            **({"attributes": attributes} if attributes else {}),
        }

    def load_state_dict(self, saved: dict) -> None:
        """Restore a state_dict of the same config, from any number of ranks. ValueError if it is of another model."""
        checkpoint.require_same_tensors(saved["model"], self.model.state_dict())
        checkpoint.require_same_trained(saved["optimizer"], self.optimizer.state_dict())
        self.model.load_state_dict(shard_all(saved["model"], self.model))
        put_back(self.model, saved.get("buffers", {}))
        to_device = methodcaller("to", self.device)
        for name, value in saved.get("attributes", {}).items():
            module, _, attribute = name.rpartition(".")
            setattr(self.model.get_submodule(module), attribute, tree_map_only(Tensor, to_device, value))
        if self.ema:
            self.ema.model.load_state_dict(shard_all(saved["ema"], self.ema.model))
        self.optimizer.load_state_dict(saved["optimizer"])
        shard_state(self.optimizer, saved["optimizer"])
        if "training_weights" in saved:
            self._train_on([shard_like(*pair) for pair in zip(saved["training_weights"], self.parameters, strict=True)])
        self.scheduler.load_state_dict(saved["scheduler"])
        self.scaler.load_state_dict(saved["scaler"])
        self.guard.load_state_dict(saved["guard"])
        progress = {FORMER_NAMES.get(name, name): value for name, value in saved["progress"].items()}
        for name in PROGRESS:
            setattr(self, name, progress.get(name, getattr(self, name)))
        self.n_micro_batches = max(self.n_micro_batches, self.config.accumulation)
        rank = self.ranks.rank
        self.train_loss = Mean(self.device, saved["train_loss"] if rank == 0 else (0.0, 0))  # counted once, on rank 0
        streams = [saved["rng"], *saved.get("rng_of_other_ranks", [])]
        if rank < len(streams):
            set_rng_state(streams[rank])
        else:  # the saved run had fewer ranks
            seed_everything(derive_seed(self.config.seed, "rank", rank, self.step))


def attributes_of(model: nn.Module) -> dict[str, object]:
    """{name: value} of what its modules hold besides parameters, buffers and modules: numbers, tensors, tuples of them."""
    return {
        f"{name}.{attribute}": value
        for name, module in model.named_modules()
        for attribute, value in vars(module).items()
        if attribute != "training" and isinstance(value, bool | int | float | tuple | Tensor)
        if all(type(leaf) in (bool, int, float, Tensor) for leaf in tree_leaves(value))
    }


class Ema:
    """A running average of the weights: average ← decay · average + (1 - decay) · weights, once per step."""

    def __init__(self, model: nn.Module, decay: float, make_copy: Callable[[nn.Module], nn.Module] = copy.deepcopy):
        self.model = make_copy(model).eval()
        pairs = zip(self.model.parameters(), model.parameters(), strict=True)
        self.averages = [average for average, weight in pairs if weight.requires_grad]
        self.model.requires_grad_(False)
        self.shares = {average.dtype: average.new_tensor(1 - decay) for average in to_local(self.averages)}

    def update(self, weights: list[Tensor], unless: Tensor | None = None) -> None:
        """Average in `weights`, except if `unless` (0-dim, bool) is true."""
        shares = self.shares
        if unless is not None:  # one operation for each dtype, not for each parameter
            shares = {dtype: share.masked_fill(unless, 0) for dtype, share in shares.items()}
        with torch.no_grad():
            share_of_each = [shares[average.dtype] for average in self.averages]
            torch._foreach_lerp_(to_local(self.averages), to_local(weights), share_of_each)

    def copy_buffers(self, model: nn.Module) -> None:
        """Copy the buffers (BatchNorm's statistics), which are not averaged."""
        averaged = dict(self.model.named_buffers())
        for name, buffer in model.named_buffers():
            if name in averaged and averaged[name].shape == buffer.shape:  # not a cache that has grown
                averaged[name].copy_(buffer)
