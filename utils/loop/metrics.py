"""What is reported: losses and counts of targets, and means that are divided once."""

import torch
import torch.nn.functional as F
from torch import Tensor

from utils.data.datasets import IGNORE
from utils.distributed.ranks import Ranks


def cross_entropy_sum(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in nats, summed over all targets but those equal to IGNORE.

    logits (..., K) and targets (...) of int64. A sum, not a mean: the reader divides once, by the count of all.
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
        self.total = torch.tensor(sums[0], dtype=torch.float64, device=device)
        self.count = torch.tensor(sums[1], dtype=torch.int64, device=device)

    def add(self, totals: list[Tensor], count: Tensor, unless: Tensor | None = None) -> None:
        """Add sums over `count` items in all, unless `unless` (bool) is true; all 0-dim tensors on this mean's device."""
        if unless is not None:  # not times 0: a sum may be NaN
            totals, count = [total.masked_fill(unless, 0) for total in totals], count.masked_fill(unless, 0)
        for total in totals:
            self.total += total
        self.count += count

    def over(self, ranks: Ranks) -> "Mean":
        """The mean of what all ranks have added: their sums and their counts, not yet divided."""
        if ranks.world == 1:
            return self
        mean = Mean(self.total.device)
        mean.total, mean.count = ranks.sum(self.total), ranks.sum(self.count)
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
