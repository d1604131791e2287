"""Reported numbers: summed losses, counts of targets, and means that are divided once."""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.data.datasets import IGNORE
from utils.distributed.ranks import Ranks

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) → the loss summed over the targets, 0-dim


def cross_entropy_sum(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in nats, summed over all targets but those equal to IGNORE.

    logits (..., K) and targets (...) of int64. A sum, not a mean: the caller divides once, by the total count.
    """
    return F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=IGNORE, reduction="sum"
    )


def squared_error_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Squared error summed over all entries. Outputs and targets must have the same shape: (B, 1) - (B,) is (B, B).

    Raises ValueError if the shapes differ.
    """
    if outputs.shape != targets.shape:
        raise ValueError(
            f"outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)} differ in shape: reshape one"
        )
    return F.mse_loss(outputs, targets, reduction="sum")


def no_loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss of padding, which has no targets: 0, with gradients of 0 for all that the model has."""
    return 0 * outputs.sum()


def count_targets(targets: Tensor) -> Tensor:
    """The number of entries of `targets` that count: all but IGNORE for classes, all for real numbers and bytes. 0-dim."""
    if targets.is_floating_point() or not targets.dtype.is_signed:  # in uint8, IGNORE would be 156
        return torch.full((), targets.numel(), device=targets.device)  # torch.tensor would wait for a GPU
    return targets.ne(IGNORE).count_nonzero()


def count_correct(logits: Tensor, targets: Tensor) -> Tensor:
    """The number of targets (...) whose logit is the largest of (..., K). 0-dim."""
    return logits.argmax(-1).eq(targets).sum()


class Scores(NamedTuple):
    """What `evaluate` returns: mean loss per target, share of targets predicted correctly, number of targets."""

    loss: float
    accuracy: float | None  # None unless each target is a class with a row of outputs
    targets: int


class Mean:
    """A mean as a sum and a count, both on the device: adding does not synchronise, and the division happens once.

    Batches of any size may be added; each weighs as much as its number of items.
    """

    def __init__(self, device: torch.device | str = "cpu", sums: tuple[float, int] = (0.0, 0)):
        self.total = torch.tensor(sums[0], dtype=torch.float64, device=device)
        self.count = torch.tensor(sums[1], dtype=torch.int64, device=device)

    def add(self, totals: list[Tensor], count: Tensor, unless: Tensor | None = None) -> None:
        """Add sums over `count` items in all, except if `unless` (bool) is true; all are 0-dim tensors on this device."""
        if unless is not None:  # not times 0: a sum may be NaN
            totals = [total.masked_fill(unless, 0) for total in totals]
            count = count.masked_fill(unless, 0)
        for total in totals:
            self.total += total
        self.count += count

    def over(self, ranks: Ranks) -> "Mean":
        """The Mean over all ranks: their sums and counts added up, not yet divided."""
        if ranks.world == 1:
            return self
        mean = Mean(self.total.device)
        mean.total = ranks.sum(self.total)
        mean.count = ranks.sum(self.count)
        return mean

    @property
    def sums(self) -> tuple[float, int]:
        """(sum, count) as exact numbers; waits for the device."""
        return self.total.item(), self.count.item()

    def value(self) -> float:
        """Sum over count. Raises ValueError if nothing was counted."""
        total, count = self.sums
        if count == 0:
            raise ValueError("a mean of nothing: no target was counted (are all of them IGNORE?)")
        return total / count

    def clear(self) -> None:
        self.total.zero_()
        self.count.zero_()
