"""The honest training loop: `train` and `evaluate`. Read this file first.

`train` is a plain function over a plain `for`. What it promises, and the tests hold it to:

1. A reported number covers every example it claims: sums and counts, divided once.
2. Watching changes nothing: log, validate and save more often, and the weights are the same, bit for bit.
3. The same config gives the same run, also if it was interrupted anywhere and resumed.
4. A crash loses nothing that was saved.
5. The test set is not an argument.
6. It says no early, with the value and the next move, before anything is overwritten.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import Dataset
from tqdm.auto import tqdm

from utils.batches import CPU, Order, batches
from utils.config import Config
from utils.device import deterministic_algorithms, own_random_streams, pick_device, rng_state, set_rng_state
from utils.facts import peak_flops
from utils.guards import SIGTERM_EXIT, Guard, Rewind, Termination, is_out_of_memory
from utils.metrics import (
    MEASURED,
    Log,
    Mean,
    count_correct,
    count_targets,
    cross_entropy_sum,
    flops_of_step,
    gpu_utilisation,
    peak_memory_bytes,
)
from utils.run import RunFolder
from utils.updates import Ema, lr_factor, make_optimizer

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) → the loss summed over the targets, 0-dim
AUTOCAST = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
PROGRESS = ("step", "skipped", "parts", "best", "worse", "stopped_early", "seconds")  # what State counts


def train_step(state: "State", x: Tensor, y: Tensor, loss: Loss) -> None:
    """Zero, forward, loss, backward, clip, step, schedule. Nothing here waits for a GPU.

    x (B, ...), y (B, ...). The gradient is that of the mean over all targets of the batch, however it is split.
    """
    targets = count_targets(y).to(state.device, non_blocking=True)
    before = Rewind(state.model)
    while True:  # once, unless memory runs out
        try:
            state.optimizer.zero_grad()
            total = torch.zeros((), device=state.device)
            for x_part, y_part in micro_batches(x, y, state.parts, state.device):
                with state.autocast():
                    outputs = state.model(x_part)
                    part = loss(outputs, y_part)
                state.scaler.scale(part / targets.clamp(min=1)).backward()
                total += part.detach()
            break
        except RuntimeError as error:
            if not is_out_of_memory(error) or state.parts >= len(x):
                raise
        # Only here, behind the except block, is nothing of the failed attempt alive any more.
        state.halve_micro_batches(before)
    state.scaler.unscale_(state.optimizer)
    state.norm = clip_grad_norm_(state.parameters, state.config.clip or math.inf)  # the norm before clipping
    state.guard.block_unless_finite(state.norm)
    state.optimizer.step()
    state.scaler.update()
    state.scheduler.step()
    state.guard.undo_buffers(before)
    if state.ema:
        state.ema.update(state.parameters, state.guard.found_inf)
    state.train_loss.add(total, targets, unless=state.guard.found_inf)
    state.step += 1


def micro_batches(x: Tensor, y: Tensor, parts: int, device: torch.device) -> Iterator[tuple[Tensor, Tensor]]:
    """(x, y) in at most `parts` pieces whose sizes differ by at most one, each moved to the device when its turn comes."""
    parts = min(parts, len(x))
    for x_part, y_part in zip(x.tensor_split(parts), y.tensor_split(parts), strict=True):
        yield x_part.to(device, non_blocking=True), y_part.to(device, non_blocking=True)


def train(
    model: nn.Module,
    train_data: Dataset,
    val_data: Dataset | None = None,
    config: Config | None = None,
    *,
    run: str | Path | None = None,
    loss: Loss = cross_entropy_sum,
) -> "Result":
    """Train `model` in place for config.steps steps and return the history.

    train_data, val_data: datasets of (x, y) pairs (utils.batches says what they may draw at random). Selection and early
    stopping see val_data only; there is no place for a test set.
    run: a folder for the log, the checkpoints and the metadata. If it holds an unfinished run of the same config, that
    run is resumed from its newest whole checkpoint and ends with the same bits as if it had never stopped.
    loss: (outputs, targets) → the loss summed over the targets.

    On SIGTERM it finishes the step, saves, and exits with 143. The caller's random streams are left as they were.

    Raises ValueError for what cannot work (before anything is written), FloatingPointError for gradients that are not
    finite, RuntimeError if a checkpoint cannot be written.
    """
    config = config or Config()
    device = pick_device(config.device)
    order = _order(train_data, config.batch_size, config)
    folder = RunFolder(run, config, len(train_data)) if run is not None else None
    log = Log(folder.log if folder else None)
    best_weights = None

    with own_random_streams(config.seed), deterministic_algorithms(config.deterministic), Termination() as sigterm:
        state = State(model, config, device)
        check_fit(state, train_data, loss)
        if folder:
            saved = folder.newest()
            if saved:
                state.load_state_dict(saved)
            log.resume(state.step)
            folder.begin(state.step, device)
        with Watch(state, order, log) as watch:
            watch.count_flops(train_data, loss)
            for x, y in _stream(train_data, order, state):
                _step_or_explain(state, x, y, loss, order)

                if device.type == "cpu" or state.due(config.log_every):
                    state.settle_blocked(order)
                if state.due(config.log_every):
                    watch.log_step()
                if val_data is not None and state.due(config.val_every):
                    with watch.paused():
                        scores = evaluate(state.evaluated, val_data, loss=loss, **_as_in(config))
                        log.add(step=state.step, val_loss=scores.loss, val_accuracy=scores.accuracy)
                        if state.judge(scores.loss):
                            best_weights = _keep_best(state, folder)
                if folder and (state.due(config.save_every) or state.stopped_early or sigterm.asked):
                    with watch.paused():
                        folder.save(state.state_dict(), state.step, state.seconds)
                if sigterm.asked:
                    raise SystemExit(SIGTERM_EXIT)
                if state.stopped_early:
                    break
    return Result(log.records, state, best_weights)


class Scores(NamedTuple):
    """What `evaluate` returns: mean loss per target, share of targets predicted right, and how many targets."""

    loss: float
    accuracy: float | None  # None for real-valued targets
    targets: int


def evaluate(
    model: nn.Module,
    data: Dataset,
    *,
    batch_size: int = 256,
    precision: str = "fp32",
    workers: int = 0,
    loss: Loss = cross_entropy_sum,
) -> Scores:
    """Average over every example of `data`, in order, changing nothing: not the modes, the buffers, or a random stream."""
    device = next(model.parameters()).device
    order = _order(data, batch_size, shuffle=False)
    nats, right = Mean(device), Mean(device)
    classes = True
    with evaluating(model), own_random_streams(), torch.no_grad():
        for x, y in batches(data, order, 0, order.steps_per_epoch, workers=workers, pin=device.type == "cuda"):
            x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
            with autocast(device, precision):
                outputs = model(x)
                total = loss(outputs, y)
            targets = count_targets(y)
            classes = not y.is_floating_point()
            nats.add(total, targets)
            if classes:
                right.add(count_correct(outputs, y), targets)
    return Scores(nats.value(), right.value() if classes else None, int(nats.sums[1]))


@contextmanager
def evaluating(model: nn.Module):
    """All modules in eval mode; afterwards each is back in the mode it was in (one may have been frozen in eval mode)."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def autocast(device: torch.device, precision: str):
    dtype = AUTOCAST[precision]
    return torch.autocast(device.type, dtype=dtype, enabled=dtype is not None)


class State:
    """Everything that a step reads and writes, and so everything that a checkpoint holds."""

    def __init__(self, model: nn.Module, config: Config, device: torch.device):
        self.config, self.device = config, device
        self.model = model.to(device).train()
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.optimizer = make_optimizer(model, config)
        self.scheduler = LambdaLR(self.optimizer, partial(lr_factor, config))
        self.scaler = torch.amp.GradScaler(device.type, enabled=config.precision == "fp16")
        self.guard = Guard(self.optimizer, device, final=config.nonfinite == "raise" and not self.scaler.is_enabled())
        self.ema = Ema(model, config.ema) if config.ema else None
        self.train_loss = Mean(device)  # since the last log record
        self.norm = torch.zeros((), device=device)  # of the last gradient, before clipping
        self.step = 0  # steps made
        self.skipped = 0  # of these, the ones known to be blocked
        self.parts = config.accumulation
        self.best: dict | None = None
        self.worse = 0  # validations since the best
        self.stopped_early = False
        self.seconds = 0.0
        self.autocast = partial(autocast, device, config.precision)

    def due(self, every: int) -> bool:
        return self.step == self.config.steps or (every > 0 and self.step % every == 0)

    @property
    def evaluated(self) -> nn.Module:
        """The model that is validated: the average, if there is one."""
        if self.ema is None:
            return self.model
        self.ema.copy_buffers(self.model)
        return self.ema.model

    def halve_micro_batches(self, before: Rewind) -> None:
        """Forget the attempt at this step, and make its parts half as large from here on."""
        self.optimizer.zero_grad()
        before.restore()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.parts *= 2
        print(
            f"out of memory at step {self.step + 1}: it is repeated in {self.parts} micro-batches, and so are those after it"
        )

    def settle_blocked(self, order: Order) -> None:
        """Learn of blocked updates: raise, or set the schedule back by as many steps. Waits for the device.

        Raises FloatingPointError under the policy "raise", and after config.max_skips blocked updates in a row.
        """
        fresh = int(self.guard.blocked) - self.skipped
        if fresh == 0:
            return
        if self.guard.final:
            bad = self.step - fresh  # the first bad one, from 0; everything after it was blocked as well
            raise FloatingPointError(
                f"the gradient of step {bad + 1} is not finite (lr {self.config.lr * lr_factor(self.config, bad):.3g}, "
                f"examples {_shortened(order.indices(bad))}); the weights are those before it. Look at these examples, "
                "lower lr or set clip; nonfinite='skip' goes on without such steps"
            )
        self.skipped += fresh
        self.scheduler.last_epoch -= fresh + 1  # as if these steps had not been
        self.scheduler.step()
        if self.guard.longest >= self.config.max_skips:
            raise FloatingPointError(
                f"{int(self.guard.longest)} updates in a row were not finite, the last of them by step {self.step} "
                f"(examples {_shortened(order.indices(self.step - 1))}); the weights are those before them. Look at the "
                "data, lower lr, or allow more by max_skips"
            )

    def judge(self, val_loss: float) -> bool:
        """Whether this validation is the best so far; stops the run when patience is at its end."""
        better = self.best is None or val_loss < self.best["val_loss"] - self.config.min_delta
        if better and math.isfinite(val_loss):
            self.best, self.worse = {"step": self.step, "val_loss": val_loss}, 0
            return True
        self.worse += 1
        self.stopped_early = 0 < self.config.patience <= self.worse
        return False

    def state_dict(self) -> dict:
        return {
            "config": asdict(self.config),
            "model": self.model.state_dict(),
            "ema": self.evaluated.state_dict() if self.ema else None,
            "optimizer": self.optimizer.state_dict(),
            "scheduler": self.scheduler.state_dict(),
            "scaler": self.scaler.state_dict(),
            "guard": self.guard.state_dict(),
            "train_loss": self.train_loss.sums,
            "rng": rng_state(),
            "progress": {name: getattr(self, name) for name in PROGRESS},
        }

    def load_state_dict(self, saved: dict) -> None:
        """Raises ValueError if the checkpoint is of a model with other tensors."""
        _require_same_tensors(saved["model"], self.model.state_dict())
        self.model.load_state_dict(saved["model"])
        if self.ema:
            self.ema.model.load_state_dict(saved["ema"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.scheduler.load_state_dict(saved["scheduler"])
        self.scaler.load_state_dict(saved["scaler"])
        self.guard.load_state_dict(saved["guard"])
        self.train_loss = Mean(self.device, saved["train_loss"])
        set_rng_state(saved["rng"])
        for name in PROGRESS:
            setattr(self, name, saved["progress"][name])


class Result:
    """What `train` returns. The model itself was trained in place.

    history: log and validation records, in order; what stands under "measured" differs from run to run.
    ema: the averaged model, or None. steps: made. skipped: of these, with a blocked update. best: {"step", "val_loss"} of
    the best validation, or None. best_weights: the state_dict that was validated then; None if it lies in the run folder.
    """

    def __init__(self, history: list[dict], state: State, best_weights: dict | None):
        self.history = history
        self.model, self.ema = state.model, state.ema and state.evaluated
        self.steps, self.skipped, self.stopped_early = state.step, state.skipped, state.stopped_early
        self.best, self.best_weights = state.best, best_weights


class Watch:
    """The clock, the meters and the progress bar."""

    def __init__(self, state: State, order: Order, log: Log):
        self.state, self.order, self.log = state, order, log
        self.peak = self._peak_flops()
        self.flops_per_target = None

    def __enter__(self) -> "Watch":
        config = self.state.config
        self.bar = tqdm(total=config.steps, initial=self.state.step, disable=not config.progress, unit="step")
        self.tick = self.window = time.perf_counter()
        return self

    def __exit__(self, *error) -> None:
        self.bar.close()

    def log_step(self) -> None:
        """One record: what is the same on every run, and apart from it what was measured."""
        state = self.state
        total, targets = state.train_loss.sums  # waits for the device
        seconds = time.perf_counter() - self.window
        rate = targets / seconds
        record = self.log.add(
            step=state.step,
            epoch=self.order.epoch(state.step - 1),
            loss=total / targets if targets else None,  # None: every target since the last record was IGNORE
            lr=state.config.lr * lr_factor(state.config, max(0, state.scheduler.last_epoch - 1)),
            grad_norm=state.norm.item(),
            skipped=state.skipped,
            **{
                MEASURED: {
                    "seconds": self._count_seconds(),
                    "targets_per_second": rate,
                    "mfu": self.flops_per_target and rate * self.flops_per_target / self.peak,
                    "peak_memory_bytes": peak_memory_bytes(state.device),
                    "gpu_utilisation": gpu_utilisation(state.device),
                }
            },
        )
        state.train_loss.clear()
        self.window = time.perf_counter()
        self.bar.update(state.step - self.bar.n)
        self.bar.set_postfix(loss=record["loss"], refresh=False)

    @contextmanager
    def paused(self):
        """Within the block the run's seconds go on, the rate's do not."""
        began = time.perf_counter()
        self._count_seconds()
        yield
        self._count_seconds()
        self.window += time.perf_counter() - began

    def _count_seconds(self) -> float:
        now = time.perf_counter()
        self.state.seconds += now - self.tick
        self.tick = now
        return self.state.seconds

    def _peak_flops(self) -> float | None:
        config, device = self.state.config, self.state.device
        if config.peak_flops or device.type != "cuda":
            return config.peak_flops or None
        tf32 = config.precision == "fp32" and torch.backends.cuda.matmul.allow_tf32
        try:
            return peak_flops(torch.cuda.get_device_name(device), "tf32" if tf32 else config.precision)
        except LookupError:
            return None  # an unknown chip has no MFU, rather than a wrong one

    def count_flops(self, data: Dataset, loss: Loss) -> None:
        """Count the FLOPs of a step on one example, if there is a peak to relate them to; leaves no trace in the run."""
        if self.peak is None:
            return
        x, y = first_examples(data, 1)
        before = Rewind(self.state.model)
        flops = flops_of_step(self.state.model, loss, x.to(self.state.device), y.to(self.state.device))
        self.flops_per_target = flops / max(1, int(count_targets(y)))
        self.state.optimizer.zero_grad()
        before.restore()


# ---- saying no early ------------------------------------------------------------------------------------------------


def check_fit(state: State, data: Dataset, loss: Loss) -> None:
    """One example through the model, in eval mode and without a trace: the model, the data and the loss fit together.

    Raises ValueError saying what does not, with shapes and types.
    """
    x, y = first_examples(data, 1)
    what = f"x {tuple(x.shape)} {x.dtype}, y {tuple(y.shape)} {y.dtype}"
    with evaluating(state.model), own_random_streams(), torch.no_grad(), state.autocast():
        try:
            outputs = state.model(x.to(state.device))
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"the model does not take the data ({what}): {error}") from error
        what += f", outputs {tuple(outputs.shape)} {outputs.dtype}"
        if loss is cross_entropy_sum:
            _check_classes(y, outputs, getattr(data, "y", y), what)
        try:
            total = loss(outputs, y.to(state.device))
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"the loss does not take the model's outputs and the targets ({what}): {error}") from error
    if total.numel() != 1:
        raise ValueError(
            f"the loss is of shape {tuple(total.shape)} ({what}): it must sum over the targets to one number"
        )


def _check_classes(y: Tensor, outputs: Tensor, labels: Tensor, what: str) -> None:
    if y.dtype != torch.int64:
        raise ValueError(
            f"cross-entropy needs class indices of dtype int64 ({what}): call .long(), or pass another loss"
        )
    if outputs.shape[:-1] != y.shape:
        raise ValueError(f"outputs must have one axis more than targets, the classes, as their last ({what})")
    classes, largest = outputs.shape[-1], int(labels.max())
    if largest >= classes:
        raise ValueError(
            f"label {largest} is out of range for {classes} classes ({what}): widen the model or fix the labels"
        )


def _step_or_explain(state: State, x: Tensor, y: Tensor, loss: Loss, order: Order) -> None:
    try:
        train_step(state, x, y, loss)
    except IndexError as error:  # how a CPU refuses a label or a token that the model does not know
        indices = _shortened(order.indices(state.step))
        raise ValueError(
            f"step {state.step + 1}, examples {indices}: {error}. Is a label or token out of range?"
        ) from error


def _require_same_tensors(saved: dict[str, Tensor], own: dict[str, Tensor]) -> None:
    theirs, ours = ([(name, tuple(t.shape)) for name, t in tensors.items()] for tensors in (saved, own))
    if theirs != ours:
        first = next((a, b) for a, b in zip([*theirs, None], [*ours, None], strict=False) if a != b)
        raise ValueError(
            f"the checkpoint is of another model: where it has {first[0]}, this one has {first[1]}. Build the model that "
            "was saved, or choose another run folder"
        )


# ---- small things ---------------------------------------------------------------------------------------------------


def first_examples(data: Dataset, n: int) -> tuple[Tensor, Tensor]:
    """The first n examples of a dataset as a batch."""
    return next(batches(data, _order(data, min(n, len(data)), shuffle=False), 0, 1))


def _order(data: Dataset, batch_size: int, config: Config | None = None, shuffle: bool = True) -> Order:
    device = getattr(data, "device", CPU)
    if config is None:
        return Order(len(data), batch_size, shuffle=shuffle, device=device)
    return Order(len(data), batch_size, config.seed, shuffle, config.drop_last, device=device)


def _stream(data: Dataset, order: Order, state: State) -> Iterator[tuple[Tensor, Tensor]]:
    config = state.config
    stop = state.step if state.stopped_early else config.steps
    pin = state.device.type == "cuda"
    workers, prefetch, persistent = config.workers, config.prefetch, config.persistent_workers
    return batches(data, order, state.step, stop, workers=workers, prefetch=prefetch, persistent=persistent, pin=pin)


def _as_in(config: Config) -> dict:
    return {"batch_size": config.val_batch_size, "precision": config.precision, "workers": config.workers}


def _keep_best(state: State, folder: RunFolder | None) -> dict | None:
    if folder:
        folder.save(state.state_dict(), state.step, state.seconds, kind="best")
        return None
    return {name: tensor.clone() for name, tensor in state.evaluated.state_dict().items()}


def _shortened(indices: Tensor) -> str:
    shown = ", ".join(map(str, indices[:8].tolist()))
    return f"[{shown}, … {len(indices)} in all]" if len(indices) > 8 else f"[{shown}]"
