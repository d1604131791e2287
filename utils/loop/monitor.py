"""The clock, the meters and the progress bar of a run."""

import math
import resource
import sys
import time
from contextlib import contextmanager

import torch
from torch import nn
from torch.utils.data import Dataset
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

from utils import facts
from utils.data.datasets import IGNORE
from utils.data.order import Order, first_examples
from utils.data.trees import Tree, count_examples, to_device
from utils.device import ask_device, is_accelerator
from utils.loop.diagnosis import explain, require_finite_training_loss
from utils.loop.guards import without_a_trace
from utils.loop.hooks import OnStep, ask
from utils.loop.log import MEASURED, Log
from utils.loop.metrics import KnownLoss, Loss, sum_and_count
from utils.loop.optim import lr_factor
from utils.loop.state import State


class Monitor:
    """The clock, the meters, the progress bar, and the caller's own look at each record."""

    def __init__(
        self,
        state: State,
        order: Order,
        log: Log,
        data: Dataset,
        loss: Loss,
        on_step: OnStep | None = None,
        progress: bool = False,
        peak_flops: float = 0.0,
    ):
        self.state = state
        self.order = order
        self.log = log
        self.on_step = on_step
        # Whether targets per second are labels, and not what the loss is divided by.
        self.counts_labels = bool(isinstance(loss, KnownLoss) and loss.count_labels)
        self.progress = progress
        self.peak = peak_flops or self._published_peak()  # FLOP/s of one device; None: no MFU
        self.flops_per_example = self._count_flops(data, loss, asked=bool(peak_flops)) if self.peak else None
        self.tick = self.window = time.perf_counter()  # a validation that was cut short may come before the first step

    def __enter__(self) -> "Monitor":
        config = self.state.config
        self.bar = tqdm(
            total=config.steps,
            initial=self.state.step,
            disable=not (self.progress and self.state.ranks.first),
            unit="step",
        )
        self.targets_before_resume = self.state.train_loss.over(self.state.ranks).sums[1]
        self.first_epoch = self.order.epoch(self.state.step)
        self.counted = 0  # targets of this process
        self.since = self.state.step  # of the last record, or where this process began
        self.tick = self.window = time.perf_counter()
        return self

    def __exit__(self, *error) -> None:
        self.bar.close()

    def log_step(self) -> None:
        """Log one record: values that are the same in every run and, under MEASURED, measured ones."""
        state = self.state
        total, targets = state.train_loss.over(state.ranks).sums  # waits for the device
        seconds = time.perf_counter() - self.window
        trained = targets - self.targets_before_resume
        if self.counts_labels:
            trained = state.labels.over(state.ranks).sums[1]
            state.labels.clear()
        rate = trained / seconds
        self.targets_before_resume = 0
        examples = self.order.count(self.since, state.step)
        self.since = state.step
        rate_of = max(
            0, state.scheduler.last_epoch - 1
        )  # the step whose rate was used: blocked steps rewind the schedule
        record = {
            "step": state.step,
            "epoch": self.order.epoch(state.step - 1),
            "loss": total / targets if targets else None,  # None: every target since the last record was IGNORE
            "lr": float(state.scheduler.base_lrs[0]) * lr_factor(state.config, rate_of, factors=state.factors),
            "grad_norm": state.norm.item(),
            "skipped": state.skipped,
            **({"skipped_steps": state.skipped_steps} if state.skipped_steps else {}),
            MEASURED: {
                "seconds": self._count_seconds(),
                "targets_per_second": rate,
                "mfu": self.flops_per_example
                and self.flops_per_example * examples / seconds / (self.peak * state.ranks.world),
                "peak_memory_bytes": peak_memory_bytes(state.device),
                "gpu_utilisation": gpu_utilisation(state.device),
            },
        }
        state.train_loss.clear()
        self.window = time.perf_counter()
        self.bar.update(state.step - self.bar.n)
        state.skipped_steps = []
        self.bar.set_postfix(loss=record["loss"], refresh=False)
        self.counted += targets
        over = self.first_epoch is None or self.order.epoch(state.step) > self.first_epoch  # since this process began
        if over and state.ranks.first and not (self.counted or state.guard.streak):
            print(f"step {state.step}: not one target so far; all of them are {IGNORE}, which count nowhere")
        if self.on_step and math.isfinite(record["loss"] or 0.0):
            with self.paused(), state.weights_to_evaluate():
                self.add(record, state.model)
        else:
            self.log.add(**record)
        require_finite_training_loss(state, record["loss"])

    def add(self, record: dict, model: nn.Module) -> dict:
        """Log a record, with the numbers that on_step adds to it when it sees `model`; without them if it fails."""
        numbers = {}
        try:
            if self.on_step:
                numbers = ask(self.on_step, record, model, self.state)
        finally:
            record = self.log.add(**record, **numbers)
        return record

    @contextmanager
    def paused(self):
        """Time within the block counts in the run's seconds, not in its rate."""
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

    def _published_peak(self) -> float | None:
        if self.state.device.type != "cuda":
            return None
        precision = self.state.config.precision
        if precision == "fp32" and torch.backends.cuda.matmul.fp32_precision == "tf32":
            precision = "tf32"
        try:
            return facts.peak_flops(torch.cuda.get_device_name(self.state.device), precision)
        except LookupError:
            return None  # for an unknown chip no MFU is better than a wrong one

    def _count_flops(self, data: Dataset, loss: Loss, asked: bool) -> float | None:
        """FLOPs per example, counted on a step with two examples that leaves no trace in the run.

        None if they cannot be counted and nobody has asked for MFU, since the peak is a published one.
        """
        x, y = first_examples(data, 2)  # two, because BatchNorm cannot train on one
        try:
            with without_a_trace(self.state.model), self.state.autocast:
                flops = flops_of_step(self.state.model, loss, *to_device((x, y), self.state.device))
        except Exception as error:
            if not asked:
                return None
            explain(error, "counting the FLOPs")
            raise
        return flops / count_examples(x)


def flops_of_step(model: nn.Module, loss: Loss, inputs: Tree, targets: Tree) -> int:
    """FLOPs of one real forward and backward, counted by torch (matmuls and convolutions; a multiply-add is 2). Leaves
    gradients behind. Fused attention counts as torch has it: 0 on a CPU, on CUDA also what its backward computes again."""
    with FlopCounterMode(display=False) as counter:
        sum_and_count(loss, model(inputs), targets)[0].backward()
    return counter.get_total_flops()


def peak_memory_bytes(device: torch.device) -> int | None:
    """Peak memory so far: of tensors on a GPU (None if torch cannot read it), of the whole process on a CPU."""
    if is_accelerator(device):
        return ask_device(device, "max_memory_allocated")
    unit = 1 if sys.platform == "darwin" else 1024  # macOS reports bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def gpu_utilisation(device: torch.device) -> float | None:
    """The share of the last sample period in which a kernel ran, 0 to 1; None if the driver cannot be read."""
    if device.type != "cuda":
        return None
    try:
        return torch.cuda.utilization(device) / 100
    except (ModuleNotFoundError, RuntimeError):  # no pynvml, or a driver that refuses
        return None
