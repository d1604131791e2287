"""Everything that a step of training reads and writes, and so everything that a checkpoint holds."""

import copy
import math
from collections.abc import Callable
from dataclasses import asdict
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from utils.data.order import Order, derive_seed, first_examples
from utils.device import autocast, rng_state, seed_everything, set_rng_state
from utils.distributed.parallel import (
    fill,
    local,
    settle_layout,
    shard_like,
    shard_state,
    sharded,
    start_alike,
    with_summed_gradients,
)
from utils.distributed.ranks import ALONE, Ranks
from utils.loop.config import Config
from utils.loop.guards import Guard, Rewind, all_finite
from utils.loop.metrics import Mean
from utils.loop.optim import Ema, Schedule, lr_factor, make_optimizer

SETTLE_EVERY = 50  # steps, on a GPU
PROGRESS = ("step", "skipped", "parts", "best", "worse", "stopped_early", "seconds")  # what State counts


class State:
    """Everything that a step reads and writes, and so everything that a checkpoint holds."""

    def __init__(self, model: nn.Module, config: Config, device: torch.device, ranks: Ranks = ALONE):
        self.config, self.device, self.ranks = config, device, ranks
        if not model.training:
            model.train()  # forgotten after an evaluation; parts that were frozen in eval mode on purpose stay so
        start_alike(model, ranks)
        self.callers = model
        in_parts = ranks.world > 1 and config.parallel == "fsdp"
        copied = partial(sharded, ranks=ranks, device=device) if in_parts else copy.deepcopy
        self.model = model = copied(model) if in_parts else model.to(device)
        self.forward = with_summed_gradients(model, ranks, device)
        if ranks.rank > 0:
            seed_everything(derive_seed(config.seed, "rank", ranks.rank))  # each rank drops out other activations
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.buffers = list(model.buffers())
        self.finite = {name: b for name, b in model.named_buffers() if all_finite([b])}  # a mask may hold -inf
        self.optimizer = make_optimizer(model, config)
        self.scheduler = Schedule(self.optimizer, partial(lr_factor, config))
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "fp16")
        self.raises = config.nonfinite == "raise" and not self.scaler.is_enabled()  # a scaler expects some to overflow
        self.guard = Guard(self.optimizer, device, limit=1 if self.raises else config.max_skips)
        self.ema = Ema(self.callers, config.ema, copied) if config.ema else None
        self.train_loss = Mean(device)  # since the last log record
        self.norm = torch.zeros((), device=device)  # of the last gradient, before clipping
        self.one = torch.ones((), device=device)
        self._share = None, self.one  # the last one, and what of
        self.step = 0  # steps made
        self.skipped = 0  # of these, the ones known to be blocked
        self.parts = config.accumulation
        self.best: dict | None = None
        self.worse = 0  # validations since the best
        self.stopped_early = False
        self.seconds = 0.0
        self.autocast = autocast(device, config.precision)  # may be entered again and again

    def share(self, targets: Tensor, dtype: torch.dtype) -> Tensor:
        """1 / targets, or 1 if there are none (0-dim): what each backward begins with."""
        key = (targets.item(), dtype) if self.guard.on_host else None  # a CPU may look, and most batches have as many
        if key is None or key != self._share[0]:
            self._share = key, self.one.to(dtype) / targets.clamp(min=1)
        return self._share[1]

    def due(self, every: int) -> bool:
        return self.step == self.config.steps or (every > 0 and self.step % every == 0)

    @property
    def evaluated(self) -> nn.Module:
        """The model that is validated: the average, if there is one. Its buffers are rank 0's."""
        self.ranks.copy_from_first(self.buffers)
        if self.ema is None:
            return self.model
        self.ema.copy_buffers(self.model)
        return self.ema.model

    def gathered(self, model: nn.Module | None) -> nn.Module | None:
        """The model or the average, whole on every rank: the model is then the one that the caller gave."""
        if model is None or self.model is self.callers:
            return model
        return fill(self.callers if model is self.model else copy.deepcopy(self.callers).eval(), model)

    def rehearse(self, data: Dataset) -> None:
        """What must have happened once before the first step, also of a resumed run; leaves no trace in the weights."""
        if self.ranks.world == 1:
            return
        untouched = Rewind(self.buffers)
        with self.autocast:
            settle_layout(self.forward, first_examples(data, 2)[0].to(self.device))
        self.optimizer.zero_grad()
        untouched.restore()

    def halve_micro_batches(self, before: Rewind) -> None:
        """Forget the attempt at this step, and make its parts half as large from here on.

        Raises RuntimeError on one of several ranks: the others are already summing the gradients of their attempts.
        """
        if self.ranks.world > 1:
            raise RuntimeError(
                f"out of memory at step {self.step + 1} on rank {self.ranks.rank}, which cannot repeat it without the "
                f"others: start again with accumulation={2 * self.parts}, or with more ranks"
            )
        self.optimizer.zero_grad()
        before.restore()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.parts *= 2
        print(
            f"out of memory at step {self.step + 1}: it is repeated in {self.parts} micro-batches, and so are those after it"
        )

    def why_memory_ran_out(self, error: Exception, *batch: Tensor) -> str:
        """For an error: that one example at a time is too much, and the bytes that are held besides its activations."""
        moments = [value for values in self.optimizer.state.values() for value in values.values()]
        averages = [*self.ema.model.parameters(), *self.ema.model.buffers()] if self.ema else []
        held = {
            "parameters": self.model.parameters(),
            "gradients": self.parameters,  # as large as these
            "optimizer": (value for value in moments if isinstance(value, Tensor)),
            "average": averages,
            "buffers": self.buffers,
            "batch": batch,
        }
        held = {kind: sum(tensor.nbytes for tensor in local(tensors)) for kind, tensors in held.items()}
        if self.device.type == "cuda":
            held["activations and others"] = torch.cuda.memory_allocated(self.device) - sum(held.values())
        return (
            f"out of memory at step {self.step + 1} with one example at a time ({str(error).splitlines()[0]}). Besides "
            f"activations there are, in bytes: {', '.join(f'{kind} {number:,}' for kind, number in held.items())}. Take a "
            "smaller model, shorter examples, or a device with more memory"
        )

    def must_settle(self, watching: bool) -> bool:
        """Whether to ask the device now for blocked updates.

        A CPU knows after each step, for nothing. A GPU would have to be waited for: it is asked at steps that no
        watcher chooses, since a schedule set back is a change to the run; where the run is over, also whenever somebody
        watches: nothing more is to be logged, judged or saved of it.
        """
        if self.guard.on_host:
            return self.guard.bad is not None
        return self.due(SETTLE_EVERY) or (watching and self.guard.over)

    def settle_blocked(self, order: Order, suspect: Callable[[int], str] | None = None) -> None:
        """Learn of blocked updates: raise, or set the schedule back by as many steps. Waits for the device.

        suspect: says of a step, counted from 0, what in it was not finite; part of the error.

        Raises FloatingPointError under the policy "raise", and after config.max_skips blocked updates in a row.
        """
        if self.guard.bad is None:
            return
        fresh = int(self.guard.blocked) - self.skipped
        if fresh:
            self.require_finite()  # else the gradient is not where it began
        if self.guard.over:
            self.gathered(self.model)  # the caller's model gets the weights too where it is another one
            first = self.step - int(self.guard.streak)  # of the row, from 0; all after it was blocked as well
            raise FloatingPointError(
                self._first_bad(first, order, suspect) if self.raises else self._bad_row(first, order)
            )
        if fresh:
            self.skipped += fresh
            self.scheduler.last_epoch -= fresh + 1  # as if these steps had not been
            self.scheduler.step()

    def _first_bad(self, bad: int, order: Order, suspect: Callable[[int], str] | None) -> str:
        because = f": {suspect(bad)}" if suspect else ""
        return (
            f"the gradient of step {bad + 1} is not finite (lr {self.config.lr * lr_factor(self.config, bad):.3g}, "
            f"examples {shortened(order.batch(bad))}){because}. The weights are those before it. Look at these "
            "examples, lower lr or set clip; nonfinite='skip' goes on without such steps"
        )

    def _bad_row(self, first: int, order: Order) -> str:
        last = first + self.guard.limit
        return (
            f"{self.guard.limit} updates in a row were not finite, the last of them by step {last} (examples "
            f"{shortened(order.batch(last - 1))}); the weights are those before them. Look at the data, lower lr, or allow "
            "more by max_skips"
        )

    def judge_training(self, loss: float | None) -> None:
        """Raises FloatingPointError if the mean loss since the last record is not finite, under the policy "raise"."""
        if loss is not None and not math.isfinite(loss) and self.config.nonfinite == "raise":
            raise FloatingPointError(
                f"the training loss since the last record is {loss} at step {self.step}, though every gradient was finite: "
                "does the loss add what no weight moves, or has a target no probability at all? nonfinite='skip' goes on"
            )

    def require_finite(self) -> None:
        """Raises FloatingPointError, on every rank, if a weight, or a buffer that began finite, is so no more.

        An update from a finite gradient can be too long, and a finite input too large for the variance of a BatchNorm. No
        policy mends that: every later step would be blocked, or every later output wrong. Waits for the device.
        """
        if self.ranks.any(not all_finite(local(self.parameters))):
            raise FloatingPointError(
                f"a weight is not finite after step {self.step}: an update by a finite gradient was too long (lr "
                f"{self.config.lr:.3g}, weight_decay {self.config.weight_decay:.3g}). Lower them and start again: what "
                "was saved before is finite, and may be large already"
            )
        bad = [name for name, buffer in self.finite.items() if not all_finite([buffer])]
        if bad := self.ranks.of_first(bad):
            raise FloatingPointError(
                f"the buffer {bad[0]} is not finite after step {self.step}, though every update was: look for inputs or "
                "activations whose square overflows. It never heals: go on from the newest checkpoint, which is from "
                "before it"
            )

    def judge(self, val_loss: float) -> bool:
        """Whether this validation is the best so far; stops the run when patience is at its end.

        Raises FloatingPointError for a loss that is not finite under the policy "raise"; else it is none of the best.
        """
        if not math.isfinite(val_loss) and self.config.nonfinite == "raise":
            raise FloatingPointError(
                f"the validation loss is {val_loss} after step {self.step}, though every update was finite: look for "
                "inputs or activations that overflow; nonfinite='skip' goes on and never takes such a one for the best"
            )
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
            "model": self.model.state_dict(),
            "ema": self.evaluated.state_dict() if self.ema else None,
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "guard": self.guard.state_dict(),
            "train_loss": self.train_loss.over(self.ranks).sums,
            "rng": streams,
            "progress": {name: getattr(self, name) for name in PROGRESS},
        } | ({"rng_of_other_ranks": others} if others else {})

    def load_state_dict(self, saved: dict) -> None:
        """Take up where `saved`, the state_dict of any number of ranks, left off.

        A rank that the saved run had goes on in its own random streams, a further one begins streams of its own.

        Raises ValueError if it is of a model with other tensors. RunFolder.newest has compared the configs.
        """
        require_same_tensors(saved["model"], self.model.state_dict())
        saved = saved | {"model": _shard_all(saved["model"], self.model)}
        if self.ema:
            saved["ema"] = _shard_all(saved["ema"], self.ema.model)
        self.model.load_state_dict(saved["model"])
        if self.ema:
            self.ema.model.load_state_dict(saved["ema"])
        self.optimizer.load_state_dict(saved["optimizer"])
        shard_state(self.optimizer)
        self.scheduler.load_state_dict(saved["scheduler"])
        self.scaler.load_state_dict(saved["scaler"])
        self.guard.load_state_dict(saved["guard"])
        self.train_loss = Mean(self.device, saved["train_loss"])
        set_rng_state(saved["rng"])
        for name in PROGRESS:
            setattr(self, name, saved["progress"][name])
        if not self.ranks.first:
            self._take_own_part(saved.get("rng_of_other_ranks", []))

    def _take_own_part(self, streams: list[dict]) -> None:
        """Of what was loaded, rank 0 keeps what is counted once; the random streams of the other ranks are theirs."""
        self.train_loss.clear()
        if self.ranks.rank <= len(streams):
            set_rng_state(streams[self.ranks.rank - 1])
        else:
            seed_everything(derive_seed(self.config.seed, "rank", self.ranks.rank, self.step))


def _shard_all(saved: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    own = model.state_dict()
    return {name: shard_like(tensor, own[name]) for name, tensor in saved.items()}


def require_same_tensors(saved: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    theirs, ours = ([(name, tuple(t.shape)) for name, t in tensors.items()] for tensors in (saved, own))
    if theirs != ours:
        first = next((a, b) for a, b in zip([*theirs, None], [*ours, None], strict=False) if a != b)
        raise ValueError(
            f"the checkpoint is of another model: where it has {first[0]}, this one has {first[1]}. Build the model that "
            "was saved, or choose another run folder"
        )


def shortened(indices: Tensor) -> str:
    """Indices for an error message: the first eight, and how many there are."""
    shown = ", ".join(map(str, indices[:8].tolist()))
    return f"[{shown}, … {len(indices)} in all]" if len(indices) > 8 else f"[{shown}]"
