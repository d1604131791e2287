"""Reported numbers: summed losses, what they are divided by, and means that are divided once."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data.datasets import IGNORE
from utils.data.trees import Tree, tensors
from utils.distributed.ranks import Ranks

# (outputs, targets) → the loss summed over the targets, and what to divide it by: 0-dim, the count may be an int. The sum
# alone, where it can be divided by the number of targets; a loss module of torch, whatever its reduction. A loss of the
# caller's own gets whole trees, and with them it says what to divide by.
Loss = Callable[[Tree, Tree], Tensor | tuple[Tensor, Tensor | int]]


# ---- losses ----------------------------------------------------------------------------------------------------------


def cross_entropy_sum(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy in nats, summed over all targets but those equal to IGNORE.

    logits (..., K) and targets (...) of int64. A sum, not a mean: the caller divides once, by the total count.
    """
    return F.cross_entropy(
        logits.reshape(-1, logits.shape[-1]), targets.reshape(-1), ignore_index=IGNORE, reduction="sum"
    )


# What `train` minimises if it is given no loss. Nobody has said then that the classes are last.
UNSAID_LOSS = partial(cross_entropy_sum)


def squared_error_sum(outputs: Tensor, targets: Tensor) -> Tensor:
    """Squared error summed over all entries. Outputs and targets must have the same shape: (B, 1) - (B,) is (B, B).

    Raises ValueError if the shapes differ.
    """
    if outputs.shape != targets.shape:
        raise ValueError(
            f"outputs {tuple(outputs.shape)} and targets {tuple(targets.shape)} differ in shape: reshape one"
        )
    return F.mse_loss(outputs, targets, reduction="sum")


def count_targets(targets: Tensor) -> Tensor:
    """The number of class indices that count: all but IGNORE. 0-dim."""
    if not targets.dtype.is_signed:  # in uint8, IGNORE would be 156
        return count_entries(targets)
    return targets.ne(IGNORE).count_nonzero()


def count_entries(targets: Tensor) -> Tensor:
    return torch.full((), targets.numel(), device=targets.device)  # torch.tensor would wait for a GPU


def count_examples(targets: Tensor) -> Tensor:
    return torch.full((), len(targets), device=targets.device)


def weigh_labels(loss: nn.CrossEntropyLoss | nn.NLLLoss, targets: Tensor) -> Tensor:
    """What torch's mean divides by: the number of labels, or the sum of their classes' weights; of soft targets (N, K, …)
    the number of rows. 0-dim."""
    if targets.is_floating_point():
        return torch.full((), targets.numel() // max(1, targets.shape[1]), device=targets.device)
    counted = targets.ne(loss.ignore_index)
    if loss.weight is None:
        return counted.count_nonzero()
    weights = loss.weight.double()[targets.where(counted, 0)]
    return weights.where(counted, 0).sum()


def count_labels(loss: nn.CrossEntropyLoss | nn.NLLLoss, targets: Tensor) -> Tensor:
    """The number of labels that count, whatever they weigh; of soft targets that of rows. 0-dim."""
    if targets.is_floating_point():
        return weigh_labels(loss, targets)
    return targets.ne(loss.ignore_index).count_nonzero()


# What the mean of torch's loss modules divides by. (Of KLDivLoss(reduction="batchmean") it is the examples.)
LABELS = (nn.CrossEntropyLoss, nn.NLLLoss)
ENTRIES = (
    *(nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCELoss, nn.BCEWithLogitsLoss, nn.KLDivLoss),
    *(nn.PoissonNLLLoss, nn.SoftMarginLoss, nn.HingeEmbeddingLoss),
)
EXAMPLES = (nn.MultiMarginLoss, nn.MultiLabelMarginLoss, nn.MultiLabelSoftMarginLoss)


@dataclass(frozen=True)
class KnownLoss:
    """A loss whose sum and count are known from what it is."""

    sum: Callable[[Tensor, Tensor], Tensor]
    count: Callable[[Tensor], Tensor]  # targets → what the mean divides by, 0-dim
    class_axis: int | None = None  # of the outputs, if it is a cross-entropy
    ignored: int = IGNORE  # the label that counts nowhere
    count_labels: Callable[[Tensor], Tensor] | None = None  # targets → the number of labels, if `count` weighs them

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.sum(outputs, targets)


def as_known_loss(loss: Loss) -> KnownLoss | None:
    """What this loss is, if it is one of this module or of torch.nn, or is known already; None for a caller's own."""
    if isinstance(loss, KnownLoss):
        return loss
    if loss is cross_entropy_sum or loss is UNSAID_LOSS:
        return KnownLoss(loss, count_targets, class_axis=-1)
    if loss is squared_error_sum:
        return KnownLoss(loss, count_entries)
    kind = type(loss)
    if kind not in (*LABELS, *ENTRIES, *EXAMPLES) or loss.reduction == "none":
        return None
    total = partial(sum_of_module, loss)
    if kind in LABELS:
        labels = partial(count_labels, loss) if loss.weight is not None else None
        return KnownLoss(total, partial(weigh_labels, loss), 1, loss.ignore_index, labels)
    by_example = kind in EXAMPLES or loss.reduction == "batchmean"
    return KnownLoss(total, count_examples if by_example else count_entries)


def sum_of_module(loss: nn.Module, outputs: Tensor, targets: Tensor) -> Tensor:
    """What a loss module of torch would return with reduction="sum"; with its settings of now, which a hook may change."""
    total = copy.copy(loss)
    total.reduction = "sum"
    if type(loss) in LABELS and targets.dim() > 1 and not targets.is_floating_point() and targets.device.type != "cpu":
        # Of labels (N, …) CUDA has no deterministic kernel; of rows of classes it has one.
        outputs, targets = outputs.movedim(1, -1).flatten(0, -2), targets.flatten()
    return total(outputs, targets)


def sum_and_count(loss: Loss, outputs: Tree, targets: Tree, count_known: bool = True) -> tuple[Tensor, Tensor | None]:
    """The loss summed over the targets, and what to divide it by, both 0-dim, for any `loss` that `train` takes.

    count_known: False if a KnownLoss need not count, because `count_beforehand` has done so: None is in its count's place.

    A sum without a count is divided by the number of targets: of class indices, if the outputs have an axis more, all but
    IGNORE; else of entries. Whether that is right is tried before the first step (preflight.py). Padding (no targets) has
    a loss of 0, with gradients of 0 for all that the model has.
    """
    first = targets if isinstance(targets, Tensor) else tensors(targets)[0]
    if not len(first):
        zero = sum((0 * part.sum()).real for part in tensors(outputs) if part.is_floating_point() or part.is_complex())
        return zero, torch.zeros((), dtype=torch.int64, device=first.device)
    if what := as_known_loss(loss):
        if isinstance(loss, KnownLoss) and not count_known:
            return what.sum(outputs, targets), None
        return what.sum(outputs, targets), what.count(targets)
    value = loss(outputs, targets)
    if not isinstance(value, tuple):
        return value, count_targets(targets) if outputs.dim() > targets.dim() else count_entries(targets)
    total, count = value
    if isinstance(count, Tensor):
        return total, count.to(first.device, non_blocking=True)
    return total, torch.full((), count, dtype=torch.float64, device=first.device)


def loss_with_count(loss: Loss, value: Tensor | tuple, outputs: Tree, targets: Tree) -> "Loss | KnownLoss":
    """The loss as a KnownLoss, so that no step has to find out what it divides by; itself, if it says so when it is called.

    value: what it has returned for such outputs and targets: the sum, which goes with one tensor of each, or a pair with
    the count.
    """
    if isinstance(value, tuple):
        return loss
    return as_known_loss(loss) or KnownLoss(loss, count_targets if outputs.dim() > targets.dim() else count_entries)


def count_beforehand(loss: Loss, targets: Tree) -> Tensor:
    """What sum_and_count will count, 0-dim. Of a loss that says it when called, a guess of that size."""
    if what := as_known_loss(loss):
        return what.count(targets)
    if not isinstance(targets, Tensor):
        return count_examples(tensors(targets)[0])
    return count_entries(targets) if targets.is_floating_point() else count_targets(targets)


def or_one(count: Tensor, on_host: bool = False) -> Tensor:
    """The count, to divide by: 1 where nothing was counted. On the host it may be asked; to ask a GPU is to wait for it."""
    if on_host and count:
        return count
    return count + (count == 0) if count.is_floating_point() else count.clamp(min=1)


def count_correct(loss: Loss, outputs: Tree, targets: Tree) -> tuple[Tensor, Tensor] | None:
    """How many labels have the largest output of their row, and how many labels there are; both 0-dim.

    None unless `loss` is a cross-entropy of class indices: of others the largest output is no answer.
    """
    what = as_known_loss(loss)
    if not what or what.class_axis is None or targets.is_floating_point() or outputs.dim() != targets.dim() + 1:
        return None
    rows = outputs.movedim(what.class_axis, -1)
    if rows.shape[:-1] != targets.shape or rows.shape[-1] == 1:  # of one output the largest is always the first
        return None
    counted = targets.ne(what.ignored)
    return (rows.argmax(-1).eq(targets) & counted).sum(), counted.sum()


# ---- means -----------------------------------------------------------------------------------------------------------


class Scores(NamedTuple):
    """What `evaluate` returns: mean loss per target, share of targets predicted correctly, number of targets."""

    loss: float
    accuracy: float | None  # None unless the loss is a cross-entropy of class indices
    targets: int  # labels, or else what the loss was divided by


ADD_TOGETHER = 64  # sums: to add one to another between two steps takes four times as long as when it is not the first


class Mean:
    """A mean as a sum and a count, both on the device: adding does not synchronise, and the division happens once.

    Batches of any size may be added; each weighs as much as its number of items.
    """

    def __init__(self, device: torch.device | str = "cpu", sums: tuple[float, float] = (0.0, 0)):
        self._total, self._count = (torch.tensor(part, dtype=torch.float64, device=device) for part in sums)
        self._not_added = []  # (sums, count), in order; so their rounding is that of adding each at once

    def add(self, totals: list[Tensor], count: Tensor, unless: Tensor | None = None) -> None:
        """Add sums over `count` items in all, except if `unless` (bool) is true; all are 0-dim tensors on this device."""
        if unless is not None:  # not times 0: a sum may be NaN
            totals = [total.masked_fill(unless, 0) for total in totals]
            count = count.masked_fill(unless, 0)
        self._not_added.append((totals, count))
        if len(self._not_added) == ADD_TOGETHER:
            self._add_up()

    def _add_up(self) -> tuple[Tensor, Tensor]:
        """The sum and the count, of all that was added."""
        for totals, count in self._not_added:
            for total in totals:
                self._total += total
            self._count += count
        self._not_added.clear()
        return self._total, self._count

    def over(self, ranks: Ranks) -> "Mean":
        """The Mean over all ranks: their sums and counts added up, not yet divided."""
        if ranks.world == 1:
            return self
        mean = Mean(self._total.device)
        mean._total, mean._count = map(ranks.sum, self._add_up())
        return mean

    @property
    def sums(self) -> tuple[float, float]:
        """(sum, count) as exact numbers, a whole count as an int; waits for the device."""
        total, count = (part.item() for part in self._add_up())
        return total, int(count) if count.is_integer() else count

    def value(self) -> float:
        """Sum over count. Raises ValueError if nothing was counted."""
        total, count = self.sums
        if count == 0:
            raise ValueError("a mean of nothing: no target was counted (are all of them IGNORE?)")
        return total / count

    def clear(self) -> None:
        self._not_added.clear()
        self._total.zero_()
        self._count.zero_()
