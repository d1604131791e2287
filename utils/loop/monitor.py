"""The clock, the meters and the progress bar of a run."""

import copy
import resource
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

from utils import facts
from utils.data.datasets import IGNORE
from utils.data.order import Order, first_examples
from utils.device import ask_device, is_accelerator, own_random_streams
from utils.loop.diagnosis import explain, require_finite_training_loss
from utils.loop.guards import eval_mode, without_a_trace
from utils.loop.log import MEASURED, Log
from utils.loop.metrics import Loss, sum_and_count
from utils.loop.optim import lr_factor
from utils.loop.state import State


class Monitor:
    """The clock, the meters, the progress bar, and the caller's own look at each log record."""

    def __init__(
        self,
        state: State,
        order: Order,
        log: Log,
        data: Dataset,
        loss: Loss,
        on_log: Callable[[dict, nn.Module], None] | None = None,
        progress: bool = False,
        peak_flops: float = 0.0,
    ):
        self.state = state
        self.order = order
        self.log = log
        self.on_log = on_log
        self.progress = progress
        self.peak = peak_flops or self._published_peak()  # FLOP/s of one device; None: no MFU
        self.flops_per_example = self._count_flops(data, loss) if self.peak else None

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
        rate = (targets - self.targets_before_resume) / seconds
        self.targets_before_resume = 0
        examples = self.order.count(self.since, state.step)
        self.since = state.step
        record = self.log.add(
            step=state.step,
            epoch=self.order.epoch(state.step - 1),
            loss=total / targets if targets else None,  # None: every target since the last record was IGNORE
            lr=float(state.scheduler.base_lrs[0]) * lr_factor(state.config, max(0, state.scheduler.last_epoch - 1)),
            grad_norm=state.norm.item(),
            skipped=state.skipped,
            **({"skipped_steps": state.skipped_steps} if state.skipped_steps else {}),
            **{
                MEASURED: {
                    "seconds": self._count_seconds(),
                    "targets_per_second": rate,
                    "mfu": self.peak and self.flops_per_example * examples / seconds / (self.peak * state.ranks.world),
                    "peak_memory_bytes": peak_memory_bytes(state.device),
                    "gpu_utilisation": gpu_utilisation(state.device),
                }
            },
        )
        state.train_loss.clear()
        self.window = time.perf_counter()
        self.bar.update(state.step - self.bar.n)
        state.skipped_steps = []
        self.bar.set_postfix(loss=record["loss"], refresh=False)
        self.counted += targets
        over = self.first_epoch is None or self.order.epoch(state.step) > self.first_epoch  # since this process began
        if over and state.ranks.first and not (self.counted or state.guard.streak):
            print(f"step {state.step}: not one target so far; all of them are {IGNORE}, which count nowhere")
        require_finite_training_loss(state, record["loss"])
        if self.on_log:
            with self.paused(), self.state.weights_to_evaluate():
                self._show(record)

    def _show(self, record: dict) -> None:
        """Call on_log on rank 0, which may look at the model.

        In eval mode, without gradients, with random streams of its own; buffers are restored. Raises RuntimeError if it has
        changed a weight in place, other than through .data.
        """
        model = self.state.whole_model(self.state.model)  # of all ranks, if they hold it in parts
        if not self.state.ranks.first:
            return
        versions = [p._version for p in model.parameters()]
        with eval_mode(model), own_random_streams(), torch.no_grad():
            self.on_log(copy.deepcopy(record), model)
        if versions != [p._version for p in model.parameters()]:
            raise RuntimeError(
                "on_log has changed a weight of the model: it may look only; change a copy.deepcopy(model)"
            )

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

    def _count_flops(self, data: Dataset, loss: Loss) -> float:
        """FLOPs per example, counted on a step with two examples that leaves no trace in the run."""
        x, y = first_examples(data, 2)  # two, because BatchNorm cannot train on one
        try:
            with without_a_trace(self.state.model), self.state.autocast:
                flops = flops_of_step(self.state.model, loss, x.to(self.state.device), y.to(self.state.device))
        except Exception as error:
            explain(error, "counting the FLOPs")
            raise
        return flops / len(x)


def flops_of_step(model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor) -> int:
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
