"""The settings of a run: one frozen dataclass, checked when it is made."""

import ast
import inspect
import math
from dataclasses import asdict, dataclass, fields
from itertools import pairwise

import torch

from utils.device import copies_from_pinned


@dataclass(frozen=True)
class Config:
    """All settings of a training run except the model and the data. Nothing else configures it.

    Raises ValueError, with the value and the next move, for a value that cannot work.
    """

    steps: int = 1_000
    """optimizer steps in all"""
    batch_size: int = 64
    """examples per step, over all its micro-batches"""
    accumulation: int = 1
    """micro-batches that a step's batch is split into; the gradient stays that of the whole batch"""
    drop_last: bool = False
    """leave out the short last batch of each epoch"""
    seed: int = 0
    """seed of the data order, of dropout and of random numbers that examples draw"""

    optimizer: str = "adamw"
    """adamw or sgd"""
    lr: float = 1e-3
    """peak learning rate"""
    weight_decay: float = 0.0
    """weight decay of matrices, not of biases and norms; decoupled for AdamW"""
    momentum: float = 0.9
    """SGD momentum"""
    beta1: float = 0.9
    """AdamW β₁"""
    beta2: float = 0.999
    """AdamW β₂"""
    warmup: float = 0.0
    """steps of linear warm-up, the first of them at lr / warmup; below 1 the share of all steps: 0.1 is a tenth"""
    schedule: str = "constant"
    """after the warm-up: constant; cosine or linear, which reach final_lr one step after the last"""
    final_lr: float = 0.0
    """end of the cosine or the line, as a fraction of lr"""
    clip: float = 0.0
    """largest global gradient norm; 0: no clipping"""
    ema: float = 0.0
    """decay per step of a running average of the weights, used for validation; 0: no average"""

    precision: str = "fp32"
    """fp32, bf16 (autocast) or fp16 (autocast with a gradient scaler)"""
    device: str = "auto"
    """auto (a GPU if there is one), cpu, cuda, cuda:1"""
    compile: bool = False
    """compile the forward pass by torch.compile: other bits than without, and perhaps after a resume"""
    parallel: str = "ddp"
    """with several ranks: ddp (each rank holds a copy of the model) or fsdp (each holds a shard)"""
    deterministic: bool = True
    """use deterministic kernels only; an operation without one raises, and False lets it run, with other bits each time"""
    nonfinite: str = "raise"
    """if a gradient is not finite: raise, or skip the step; fp16 always skips, to lower its scale"""
    max_skips: int = 16
    """stop with an error after this many skipped steps in a row (16 halvings bring fp16's first scale, 65536, to 1)"""
    out_of_memory: str = "raise"
    """if memory runs out: raise, or halve the micro-batches and repeat the step, with other dropout masks"""
    select: str = "min val_loss"
    """which validation is best: min or max, and the name of val_loss, val_accuracy, or a number that on_step adds"""
    patience: int = 0
    """stop early after this many validations without a better one; 0: never"""
    min_delta: float = 0.0
    """least improvement that patience counts as better, in units of what is selected; the best is best by however little"""
    val_every: int = 0
    """steps between validations; the last step is always validated, 0: only that"""
    val_batch_size: int = 256
    """examples per batch in validation"""

    workers: int = 0
    """worker processes that load batches ahead; 0: load in this process"""
    prefetch: int = 2
    """batches that each worker loads ahead"""
    persistent_workers: bool = True
    """keep the workers from epoch to epoch"""
    worker_timeout: float = 600.0
    """seconds to wait for a batch from the workers before raising an error; 0: no limit"""
    log_every: int = 50
    """steps between log records, plus one after the last step; the run waits for a GPU only then"""
    save_every: int = 500
    """steps between checkpoints (in a run folder), plus one after the last step; 0: only that"""
    keep: int = 3
    """number of newest checkpoints to keep, in addition to the best"""

    @property
    def warmup_steps(self) -> int:
        """The steps of warm-up, where `warmup` may be a share of all steps."""
        return int(self.warmup) if self.warmup >= 1 else round(self.warmup * self.steps)

    @property
    def selected(self) -> str:
        """The name of the number by which the best validation is selected."""
        return self.select.partition(" ")[2]

    def loading(self, device: torch.device) -> dict:
        """How to load batches for `device`: the options of utils.data.order.batches."""
        return {
            "workers": self.workers,
            "prefetch": self.prefetch,
            "persistent": self.persistent_workers,
            "timeout": self.worker_timeout,
            "pin": copies_from_pinned(device),
        }

    def __post_init__(self):
        self._require(not callable(self.schedule), "schedule", "pass a function to train, as its argument `schedule`")
        for field in fields(self):
            self._check_type(field.name, field.type)
        at_least = {
            1: ("steps", "batch_size", "accumulation", "val_batch_size", "log_every", "keep", "prefetch", "max_skips"),
            0: (
                *("seed", "warmup", "workers", "patience", "val_every", "save_every"),
                *("weight_decay", "clip", "min_delta", "final_lr", "worker_timeout"),
            ),
        }
        for least, names in at_least.items():
            for name in names:
                self._require(getattr(self, name) >= least, name, f"it must be at least {least}")
        self._require(self.seed < 2**63, "seed", "it must be below 2**63")
        self._require(self.lr > 0, "lr", "it must be above 0, 1e-3 say")
        self._require(self.final_lr <= 1, "final_lr", "it is a fraction of lr, from 0 to 1")
        self._require(self.warmup < 1 or self.warmup % 1 == 0, "warmup", "it is a number of steps, or a share below 1")
        self._require(self.warmup_steps < self.steps, "warmup", f"it must end before the {self.steps} steps do")
        self._require(
            self.accumulation <= self.batch_size, "accumulation", f"batch_size {self.batch_size} has no more parts"
        )
        self._require(
            not (self.compile and self.parallel == "fsdp"), "compile", "FSDP's forward is not compiled here: choose ddp"
        )
        direction, _, selected = self.select.partition(" ")
        self._require(
            direction in ("min", "max") and selected.strip() == selected != "",
            "select",
            f"say whether the smallest or the largest is best, 'min {self.select}' or 'max {self.select}'",
        )
        self._require(
            self.select not in ("max val_loss", "min val_accuracy"), "select", "that would be the worst validation"
        )
        for name in ("momentum", "beta1", "beta2", "ema"):
            self._require(0 <= getattr(self, name) < 1, name, "it must be at least 0 and below 1")
        for name, known in CHOICES.items():
            self._require(getattr(self, name) in known, name, f"choose one of {', '.join(known)}")

    def _check_type(self, name: str, kind: type) -> None:
        value = getattr(self, name)
        if kind is float and type(value) is int:
            object.__setattr__(self, name, float(value))  # lr=1 means 1.0
        elif type(value) is not kind:
            raise ValueError(f"{name} is {value!r}: it must be of type {kind.__name__}")
        self._require(kind is not float or math.isfinite(value), name, "it must be a finite number")

    def _require(self, holds: bool, name: str, advice: str) -> None:
        if not holds:
            raise ValueError(f"{name} is {getattr(self, name)!r}: {advice}")


CHOICES = {
    "optimizer": ("adamw", "sgd"),
    "schedule": ("constant", "cosine", "linear"),
    "precision": ("fp32", "bf16", "fp16"),
    "parallel": ("ddp", "fsdp"),
    "nonfinite": ("raise", "skip"),
    "out_of_memory": ("raise", "halve"),
}

# Fields that do not change the weights, except that `parallel`, `deterministic` and `out_of_memory` change their rounding: a
# run may be resumed with other values of these. Of WHEN_VALIDATED only without patience, which counts validations and
# compares losses.
MAY_CHANGE_ON_RESUME = frozenset(
    {
        *("workers", "prefetch", "persistent_workers", "worker_timeout", "log_every", "save_every", "keep"),
        *("parallel", "deterministic", "out_of_memory"),
    }
)
WHEN_VALIDATED = frozenset({"val_every", "val_batch_size"})


# Fields of older versions that are arguments of `train` now: old run folders hold them.
NOW_ARGUMENTS_OF_TRAIN = frozenset({"dollars_per_hour", "peak_flops", "progress"})


def differences(old: dict, new: Config) -> list[str]:
    """Differences between a saved config and `new` that forbid a resume: ["lr: 0.001 → 0.01", …].

    A run at a constant rate may get more steps: those that it has made are the same. So they are if steps that are not
    finite, which have ended it, are left out from now on, or more of them; or if its micro-batches become smaller, apart
    from rounding. A field that an older version did not save is what is now its default.
    """
    watched = frozenset() if new.patience else WHEN_VALIDATED
    now = asdict(new)
    old = {field.name: field.default for field in fields(Config)} | old
    longer = new.schedule == "constant" and not 0 < new.warmup < 1 and new.steps > old["steps"]
    grown = {name for name in ("accumulation", "max_skips") if now[name] > old[name]}
    may_change = MAY_CHANGE_ON_RESUME | watched | NOW_ARGUMENTS_OF_TRAIN | grown | ({"steps"} if longer else set())
    may_change |= {"nonfinite"} if new.nonfinite == "skip" else set()
    return [
        f"{name}: {old.get(name)!r} → {now.get(name)!r}" + ", by which patience counts" * (name in WHEN_VALIDATED)
        for name in {**now, **old}
        if name not in may_change and old.get(name) != now.get(name)
    ]


def field_docs() -> dict[str, str]:
    """The docstring under each field of Config, by name: what `--help` shows."""
    body = ast.parse(inspect.getsource(Config)).body[0].body
    return {
        field.target.id: text.value.value
        for field, text in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr)
    }
