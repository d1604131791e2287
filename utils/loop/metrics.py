"""What is reported: sums and counts that are divided once, rates, money, and the log they are written to."""

import json
import os
import resource
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import reduce
from operator import add
from pathlib import Path
from typing import BinaryIO

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from utils.data.datasets import IGNORE
from utils.distributed.ranks import ALONE, Ranks
from utils.loop.folders import Check, rename, unchecked

MEASURED = "measured"  # the key of a record that holds seconds and bytes: what differs from run to run
HELD = 64  # addends that a mean keeps before it sums them: few, so that they take no room


def cross_entropy_sum(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in nats, summed over all targets but those equal to IGNORE.

    logits (..., K) and targets (...) of int64. A sum, not a mean: whoever reports it divides once, by the count of all.
    """
    return F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=IGNORE, reduction="sum"
    )


def squared_error_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Squared error summed over all entries; outputs and targets of one shape, because (B, 1) - (B,) is (B, B).

    Raises ValueError if the shapes differ.
    """
    if outputs.shape != targets.shape:
        raise ValueError(
            f"outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)} differ in shape: reshape one"
        )
    return F.mse_loss(outputs, targets, reduction="sum")


def count_targets(targets: Tensor) -> Tensor:
    """How many entries of `targets` count: all but IGNORE for classes, all for real numbers. A 0-dim tensor."""
    if targets.is_floating_point():
        return torch.full((), targets.numel(), device=targets.device)  # torch.tensor would wait for a GPU
    return targets.ne(IGNORE).count_nonzero()


def count_correct(logits: Tensor, targets: Tensor) -> Tensor:
    """How many targets (...) are the largest of their logits (..., K). A 0-dim tensor."""
    return logits.argmax(-1).eq(targets).sum()


class Mean:
    """A mean as its sum and its count, both on the device: adding costs no synchronisation, and it is divided once.

    Batches of any size may be added; a short last batch weighs what it holds.
    """

    def __init__(self, device: torch.device | str = "cpu", sums: tuple[float, int] = (0.0, 0)):
        total, count = sums
        self._total = torch.tensor(total, dtype=torch.float64, device=device)
        self._count = torch.tensor(count, dtype=torch.int64, device=device)
        self._on_host = self._total.is_cpu
        self._held: list[tuple[list[Tensor], Tensor]] = []  # summed later, in a row: a fraction of the time

    def add(self, totals: list[Tensor], count: Tensor, unless: Tensor | None = None) -> None:
        """Add sums over `count` items in all, unless `unless` (bool) is true; all 0-dim tensors on this mean's device,
        which must not be changed afterwards."""
        if unless is not None:  # not times 0: a sum may be NaN
            totals, count = [total.masked_fill(unless, 0) for total in totals], count.masked_fill(unless, 0)
        self._held.append((totals, count))
        if len(self._held) == HELD:
            self._sum()

    def _sum(self) -> None:
        """Sum what is held, one by one: the same bits, whenever it is done."""
        totals, counts = [total for totals, _ in self._held for total in totals], [count for _, count in self._held]
        if self._on_host:  # Python adds as well, to the same bits and several times as fast
            self._total.fill_(reduce(add, (total.item() for total in totals), self._total.item()))
            self._count.fill_(reduce(add, (count.item() for count in counts), self._count.item()))
        else:
            for total in totals:
                self._total += total
            for count in counts:
                self._count += count
        self._held.clear()

    def over(self, ranks: Ranks) -> "Mean":
        """The mean of what all ranks have added: their sums and their counts, not yet divided."""
        if ranks.world == 1:
            return self
        self._sum()
        whole = Mean(self._total.device)
        whole._total, whole._count = ranks.sum(self._total), ranks.sum(self._count)
        return whole

    @property
    def sums(self) -> tuple[float, int]:
        """(sum, count) as exact numbers; waits for the device."""
        self._sum()
        return self._total.item(), self._count.item()

    def value(self) -> float:
        """Sum over count. Raises ValueError if nothing was counted."""
        total, count = self.sums
        if count == 0:
            raise ValueError("a mean of nothing: no target was counted (are all of them IGNORE?)")
        return total / count

    def clear(self) -> None:
        self._held.clear()
        self._total.zero_()
        self._count.zero_()


def flops_of_step(model: nn.Module, loss, inputs: Tensor, targets: Tensor) -> int:
    """FLOPs of one forward and backward, counted by torch on the real thing (matmuls and convolutions; a multiply and an
    add are 2). Leaves gradients behind."""
    with FlopCounterMode(display=False) as counter:
        loss(model(inputs), targets).backward()
    return counter.get_total_flops()


def peak_memory_bytes(device: torch.device) -> int:
    """The most memory held so far: by tensors on a GPU, by the whole process on a CPU."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024  # macOS reports bytes, Linux KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def gpu_utilisation(device: torch.device) -> float | None:
    """The share of the last sample period in which some kernel ran, 0 to 1; None where no driver answers."""
    if device.type != "cuda":
        return None
    try:
        return torch.cuda.utilization(device) / 100
    except (ModuleNotFoundError, RuntimeError):  # no pynvml, or a driver that refuses
        return None


def cost_dollars(seconds: float, dollars_per_hour: float) -> float:
    return seconds / 3600 * dollars_per_hour


@contextmanager
def writing_anywhere() -> Iterator[Check]:
    """Around what is written to no run's folder: nothing is checked."""
    yield unchecked


class Log:
    """A run's history: a list of records in memory, and a line of JSON each in a file if there is one.

    Floats are written so that they read back to the same bits. Every rank has the list; rank 0 writes the file, always
    within `writing()`, whose value is called when the file is open, and raises if it lies in another folder by now.
    """

    def __init__(
        self,
        path: Path | None = None,
        ranks: Ranks = ALONE,
        writing: Callable[[], AbstractContextManager[Check]] = writing_anywhere,
    ):
        self.path, self.ranks, self.writing = path if ranks.first else None, ranks, writing
        self._own: list[dict] = []
        self._earlier: BinaryIO | None = None  # the file, as long as nobody has asked for what it held before this run

    @property
    def records(self) -> list[dict]:
        """All of them, in order. Those from before a resume are read now, when they are first asked for."""
        if self._earlier is not None:
            self._earlier.seek(0)
            self._own[:0] = filter(None, map(_parse, self._earlier.read(self._end).split(b"\n")))
            self._earlier.close()
            self._earlier = None
        return self._own

    def resume(self, step: int) -> None:
        """Take up the file's records up to `step` and cut off what a crashed run wrote after it.

        What was logged long ago is neither read nor written: a long run resumes as fast as a short one.
        """
        self._cut(step)
        if self.ranks.world > 1:
            self._own = self.ranks.of_first(self.records)

    def _cut(self, step: int) -> None:
        if self.path is None or not self.path.exists():
            return
        if step == 0:  # nothing of that run can be gone on with: its log is kept, not continued
            with self.writing() as check:
                rename(self.path, self.path.name + ".old", check)
            return
        with self.writing() as check, open(self.path, "r+b") as file:
            check()
            whole, self._end = _end_of_last(file, step)
            if whole:
                file.truncate(self._end)
            else:
                file.seek(self._end)
                file.write(b"\n")
            self._earlier = os.fdopen(os.dup(file.fileno()), "rb")  # the folder may be gone, or another's, by then
        weakref.finalize(self, self._earlier.close)

    def add(self, **record) -> dict:
        self._own.append(record)
        if self.path is not None:
            with self.writing() as check, open(self.path, "a") as file:
                check()
                file.write(json.dumps(record) + "\n")
        return record


BLOCK = 1 << 16  # bytes that a log is read by, from its end


def _end_of_last(file: BinaryIO, step: int) -> tuple[bool, int]:
    """Of the last record up to `step`: whether its line is whole, and where it ends; (True, 0) if there is none."""
    start = size = file.seek(0, os.SEEK_END)
    begun = b""  # of the line in which the last block began
    while start > 0:
        length = min(BLOCK, start)
        start -= length
        file.seek(start)
        lines = (file.read(length) + begun).split(b"\n")
        begun, end = lines[0], start + sum(map(len, lines)) + len(lines) - 1
        for line in reversed(lines if start == 0 else lines[1:]):
            record = _parse(line)
            if record and record["step"] <= step:
                return end < size, min(end + 1, size)
            end -= len(line) + 1
    return True, 0


def _parse(line: bytes) -> dict | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None  # the last line of a process that was killed while writing it
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None
