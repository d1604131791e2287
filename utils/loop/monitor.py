"""The clock, the meters and the progress bar of a run."""

import time
from collections.abc import Callable
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.utils.data import Dataset
from tqdm.auto import tqdm

from utils.data.order import Order, first_examples
from utils.facts import peak_flops
from utils.loop.guards import Rewind, explain
from utils.loop.metrics import MEASURED, Log, count_targets, flops_of_step, gpu_utilisation, peak_memory_bytes
from utils.loop.optim import lr_factor
from utils.loop.state import State


class Watch:
    """The clock, the meters and the progress bar."""

    def __init__(self, state: State, order: Order, log: Log):
        self.state, self.order, self.log = state, order, log
        self.peak = self._peak_flops()  # of one device
        self.flops_per_target = None

    def __enter__(self) -> "Watch":
        config = self.state.config
        self.bar = tqdm(
            total=config.steps,
            initial=self.state.step,
            disable=not (config.progress and self.state.ranks.first),
            unit="step",
        )
        self.tick = self.window = time.perf_counter()
        return self

    def __exit__(self, *error) -> None:
        self.bar.close()

    def log_step(self) -> None:
        """One record: what is the same on every run, and apart from it what was measured."""
        state = self.state
        total, targets = state.train_loss.over(state.ranks).sums  # waits for the device
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
                    "mfu": self.flops_per_target and rate * self.flops_per_target / (self.peak * state.ranks.world),
                    "peak_memory_bytes": peak_memory_bytes(state.device),
                    "gpu_utilisation": gpu_utilisation(state.device),
                }
            },
        )
        state.train_loss.clear()
        self.window = time.perf_counter()
        self.bar.update(state.step - self.bar.n)
        self.bar.set_postfix(loss=record["loss"], refresh=False)
        state.judge_training(record["loss"])

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

    def count_flops(self, data: Dataset, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        """Count the FLOPs of a step on two examples, if there is a peak to relate them to; leaves no trace in the run."""
        if self.peak is None:
            return
        x, y = first_examples(data, 2)  # two, because BatchNorm cannot train on one
        before = Rewind(self.state.buffers)
        try:
            flops = flops_of_step(self.state.model, loss, x.to(self.state.device), y.to(self.state.device))
        except Exception as error:
            explain(error, "counting the FLOPs")
            raise
        self.flops_per_target = flops / max(1, int(count_targets(y)))
        self.state.optimizer.zero_grad()
        before.restore()
