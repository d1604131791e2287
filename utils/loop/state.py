"""Everything that a training step reads and writes, and therefore everything in a checkpoint."""

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from operator import methodcaller

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_map_only

from utils.data.order import derive_seed
from utils.device import autocast, rng_state, seed_everything, set_rng_state
from utils.distributed.parallel import (
    broadcast_initial_state,
    copy_full,
    full_tensor,
    shard_all,
    shard_like,
    shard_model,
    shard_state,
    to_local,
    wrap_ddp,
)
from utils.distributed.ranks import SINGLE_PROCESS, Ranks
from utils.loop import checkpoint
from utils.loop.attributes import Attributes, set_attributes
from utils.loop.config import Config
from utils.loop.guards import Guard, Snapshot, all_finite, put_back
from utils.loop.metrics import Mean
from utils.loop.optim import (
    Rates,
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
    *("best", "last_improvement", "validations_without_improvement", "stopped_early", "validation_due", "seconds"),
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
        factors: Sequence[float] | None = None,
    ):
        self.config = config
        self.factors = factors  # of the peak rate at each step, by a schedule of the caller's own
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
        self.first_attributes = Attributes(model)  # a forward pass may count, or keep a recurrent state
        # Buffers that must stay finite: those that are so at the start. A mask may hold -inf.
        self.finite_buffers = [name for name, buffer in model.named_buffers() if all_finite([buffer])]
        self.scheduler = Rates(self.optimizer, partial(lr_factor, config, factors=factors))
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "fp16")
        # With a scaler overflow is normal: the step is skipped and the scale lowered.
        self.raises_on_nonfinite = config.nonfinite == "raise" and not self.scaler.is_enabled()
        self.guard = Guard(self.optimizer, device, limit=1 if self.raises_on_nonfinite else config.max_skips)
        # To undo a step. Under the policy "raise" that may be needed once, and the copies of large buffers at every step.
        self.before = Snapshot(
            model, copy_changing=not self.raises_on_nonfinite, of_attempts=config.out_of_memory == "halve"
        )
        self.ema = Ema(self.original_model, config.ema, make_copy) if config.ema else None
        self.train_loss = Mean(device)  # since the last log record
        self.labels = Mean(device)  # as many were trained on since then, in this process; counted if they have weights
        self.norm = torch.zeros((), device=device)  # of the last gradient, before clipping
        self.autocast = autocast(device, config.precision)  # can be entered many times
        self.stream = None  # the Stream that is trained on, if the data are one
        self.step = 0  # steps made
        self.skipped = 0  # those that were blocked
        self.skipped_steps = []  # which, of those not yet in the log
        self.n_micro_batches = config.accumulation  # per step; config.out_of_memory may double it
        self.additive = True  # whether the loss of a batch is the sum of its parts': tried before the first step
        self.smallest_share = math.inf  # the smallest number of examples that any rank has in this step
        self.best = None  # the step of the best validation, and the number by which it was selected
        self.best_weights = None  # a copy of the weights validated then, until it is in the run folder, if there is one
        self.last_improvement = None  # the selected number, when it was last better by more than min_delta
        self.validations_without_improvement = 0  # since then
        self.stopped_early = False
        self.validation_due = False  # a signal has cut short the validation of this step
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
        """The model to validate: the average, if there is one. Its buffers are rank 0's, its attributes the model's."""
        self.ranks.copy_from_first(list(self.model.buffers()))
        if self.ema:
            self.ema.copy_buffers(self.model)
            set_attributes(self.ema.model, self.first_attributes.changes(), lambda tensor: tensor.detach().clone())
        return self.ema.model if self.ema else self.model

    @property
    def in_parts(self) -> bool:
        """Whether each rank holds a part of the model."""
        return self.model is not self.original_model

    def whole_model(self, model: nn.Module) -> nn.Module:
        """The model or the average, unsharded on every rank; the model is the caller's original one."""
        if not self.in_parts:
            return model
        target = self.original_model if model is self.model else copy.deepcopy(self.original_model).eval()
        return copy_full(target, model)

    def is_best(self, value: float) -> bool:
        """Whether this validation is the best so far, by however little; stops the run when patience is exhausted.

        value: of what config.select names. Patience counts the validations since it was last better by more than min_delta.
        """
        name, sign = self.config.selected, -1 if self.config.select.startswith("max ") else 1

        def better_than(other: float | None, by: float = 0.0) -> bool:
            return math.isfinite(value) and (other is None or sign * value < sign * other - by)

        if better_than(self.last_improvement, by=self.config.min_delta):
            self.last_improvement = value
            self.validations_without_improvement = 0
        else:
            self.validations_without_improvement += 1
            self.stopped_early = 0 < self.config.patience <= self.validations_without_improvement
        best = better_than(self.best[name] if self.best else None)
        if best:
            self.best = {"step": self.step, name: value}
        return best

    def keep_best(self, for_file: bool) -> None:
        """Copy the weights that were just validated; `for_file`, where they are saved from: to the host, or in parts.

        Of several ranks that hold the same, the first one saves.
        """

        def kept(value: object) -> object:
            if not isinstance(value, Tensor):
                return copy.deepcopy(value)
            if not for_file or isinstance(value, DTensor):
                return value.clone() if for_file else full_tensor(value.clone())
            return value.to("cpu", copy=True)

        weights = self.validation_model.state_dict()
        if not for_file or self.ranks.first or self.in_parts:
            self.best_weights = {name: kept(value) for name, value in weights.items()}

    def state_dict(self) -> dict:
        require_all_saved(self.optimizer)
        rng, *rng_of_other_ranks = self.ranks.gather(rng_state())
        model = self.model.state_dict()
        attributes = tree_map_only(Tensor, Tensor.detach, self.first_attributes.changes())
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
            **({"stream": self.ranks.gather(self.stream.state_dict())} if self.stream else {}),
        }

    def load_state_dict(self, saved: dict) -> None:
        """Restore a state_dict of the same config, from any number of ranks. ValueError if it is of another model, and if it
        is of a stream on another number of ranks.
        """
        self._load_position(saved.get("stream"))
        checkpoint.require_same_tensors(saved["model"], self.model.state_dict())
        checkpoint.require_same_trained(saved["optimizer"], self.optimizer.state_dict())
        self.model.load_state_dict(shard_all(saved["model"], self.model))
        put_back(self.model, saved.get("buffers", {}))
        set_attributes(self.model, saved.get("attributes", {}), methodcaller("to", self.device))
        if self.ema:
            self.ema.model.load_state_dict(shard_all(saved["ema"], self.ema.model))
        self.optimizer.load_state_dict(saved["optimizer"])
        shard_state(self.optimizer, saved["optimizer"])
        if "training_weights" in saved:
            self._train_on([shard_like(*pair) for pair in zip(saved["training_weights"], self.parameters, strict=True)])
        self.scheduler.load_state_dict(saved["scheduler"])
        if self.factors is not None:  # of a run that has got more steps, the rate of the next was unknown
            self.scheduler.last_epoch -= 1
            self.scheduler.step()
        self.scaler.load_state_dict(saved["scaler"])
        self.guard.load_state_dict(saved["guard"])
        progress = {FORMER_NAMES.get(name, name): value for name, value in saved["progress"].items()}
        for name in PROGRESS:
            setattr(self, name, progress.get(name, getattr(self, name)))
        if "last_improvement" not in progress and self.best:  # to an older version it was the best
            self.last_improvement = self.best["val_loss"]
        self.n_micro_batches = max(self.n_micro_batches, self.config.accumulation)
        rank = self.ranks.rank
        self.train_loss = Mean(self.device, saved["train_loss"] if rank == 0 else (0.0, 0))  # counted once, on rank 0
        streams = [saved["rng"], *saved.get("rng_of_other_ranks", [])]
        if rank < len(streams):
            set_rng_state(streams[rank])
        else:  # the saved run had fewer ranks
            seed_everything(derive_seed(self.config.seed, "rank", rank, self.step))

    def _load_position(self, positions: list | None) -> None:
        """positions: of each rank's stream; None if the saved run had none."""
        if positions is None and self.stream is None:
            return
        if positions is None or self.stream is None:
            was, now = ("a dataset", "a stream") if positions is None else ("a stream", "a dataset")
            raise ValueError(
                f"the checkpoint is of a run on {was}, and train_data is {now}: continue with the old data, or choose "
                "another folder"
            )
        if len(positions) != self.ranks.world:
            raise ValueError(
                f"the checkpoint is of {len(positions)} ranks, each with a stream of its own that stands where it is saved; "
                f"this is {self.ranks.world}: resume with as many, or begin another run, in another folder, with its weights"
            )
        self.stream.load_state_dict(positions[self.ranks.rank])


class Ema:
    """A running average of the weights: average ← decay · average + (1 - decay) · weights, once per step."""

    def __init__(self, model: nn.Module, decay: float, make_copy: Callable[[nn.Module], nn.Module] = copy.deepcopy):
        self.model = make_copy(model).eval()
        pairs = zip(self.model.parameters(), model.parameters(), strict=True)
        self.averages = [average for average, weight in pairs if weight.requires_grad]
        self.model.requires_grad_(False)
        self.share = 1 - decay
        self.shares = {average.dtype: average.new_tensor(1 - decay) for average in to_local(self.averages)}

    def update(self, weights: list[Tensor], unless: Tensor | None = None) -> None:
        """Average in `weights`, except if `unless` (0-dim, bool) is true."""
        share = self.share
        if unless is not None:  # one operation for each dtype, not for each parameter
            shares = {dtype: share.masked_fill(unless, 0) for dtype, share in self.shares.items()}
            share = [shares[average.dtype] for average in self.averages]
        with (
            torch.no_grad()
        ):  # get_ema_multi_avg_fn, torch's public name for it, takes no share that only the device knows
            torch._foreach_lerp_(to_local(self.averages), to_local(weights), share)

    def copy_buffers(self, model: nn.Module) -> None:
        """Copy the buffers (BatchNorm's statistics), which are not averaged."""
        averaged = dict(self.model.named_buffers())
        for name, buffer in model.named_buffers():
            if name in averaged and averaged[name].shape == buffer.shape:  # not a cache that has grown
                averaged[name].copy_(buffer)
