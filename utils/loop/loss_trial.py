"""A loss of the caller's own is tried on random outputs: does it add up over examples, and is its count right?"""

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data.datasets import IGNORE
from utils.loop.guards import is_out_of_memory
from utils.loop.metrics import Loss, sum_and_count

MOST_FREQUENT = 16  # labels that are tried for costing nothing,
SAMPLE = 100_000  # among so many
MODULES = {  # what to pass in place of a function that returns a mean
    F.cross_entropy: nn.CrossEntropyLoss,
    F.nll_loss: nn.NLLLoss,
    F.mse_loss: nn.MSELoss,
    F.l1_loss: nn.L1Loss,
    F.smooth_l1_loss: nn.SmoothL1Loss,
    F.huber_loss: nn.HuberLoss,
    F.binary_cross_entropy: nn.BCELoss,
    F.binary_cross_entropy_with_logits: nn.BCEWithLogitsLoss,
    F.kl_div: nn.KLDivLoss,
    F.poisson_nll_loss: nn.PoissonNLLLoss,
}


def try_loss(loss: Loss, is_pair: bool, outputs: Tensor, y: Tensor, labels: Tensor, what: str) -> bool:
    """Whether the loss of a batch is the sum of its parts' losses, and its count the sum of theirs.

    is_pair: whether it returns a count, too. outputs (B, ...), y (B, ...): of one or two examples; the outputs give no more
    than their shape and type. labels: all targets that are known. what: the data, for the message.

    Raises ValueError for a sum without a count that is not one over all targets, and for a mean, with the lines that say
    what to divide by.
    """
    y = y[[0, 0, -1, -1]]  # the first half is one example twice, the second the other
    outputs = _random_outputs(loss, outputs[[0, 0, -1, -1]], y)
    total, _ = _sum_and_count(loss, outputs, y, what)
    if not math.isfinite(total) or total == 0:
        return True  # nothing can be told; where it is not finite, the first step will raise
    twice, _ = _sum_and_count(loss, torch.cat([outputs] * 2), torch.cat([y] * 2), what)
    if not math.isclose(total, 0, abs_tol=1e-6) and math.isclose(twice, total, rel_tol=1e-3):
        raise ValueError(
            f"the loss is a mean ({total:.4g} for {len(y)} examples, {twice:.4g} for the same twice over): return the sum "
            f'over the targets, reduction="sum"{_lines_for_a_mean(loss, outputs, y, labels, is_pair)}'
        )
    difference = _difference(loss, outputs, y, what)
    if is_pair:
        return difference is None
    if difference:
        if outputs.shape != y.shape and outputs.numel() == y.numel():
            raise ValueError(
                f"outputs and targets differ in shape, and the loss pairs every output with every target ({difference}; "
                f"{what}){ONE_SHAPE}"
            )
        raise ValueError(
            f"the loss is not a sum over the targets ({difference}; {what}). Say what it is by loss=pair, a sum over the "
            f"examples:{_lines('', 'len(targets)')}\nor their mean:{_lines(' * len(targets)', 'len(targets)')}"
        )
    _require_sum_over_entries(loss, outputs, y, total, what)
    _require_cost_of_all(loss, outputs, y, labels, what)
    return True


def reads_the_model(loss: Loss, model: nn.Module, x: Tensor, y: Tensor) -> bool:
    """Whether the loss is another one, for the same outputs and targets, once the model has seen other inputs.

    Such a loss reads what forward leaves behind, a router's load say.
    """
    outputs = model(x)
    before = sum_and_count(loss, outputs, y)[0]
    model(x[:1])
    return not torch.equal(before, sum_and_count(loss, outputs, y)[0])


def adds_up_through_the_model(loss: Loss, model: nn.Module, x: Tensor, y: Tensor) -> bool:
    """Whether the loss of the examples x, y is the sum of each one's, the model being called on them together and alone."""
    together = sum_and_count(loss, model(x), y)[0]
    alone = [sum_and_count(loss, model(x[i : i + 1]), y[i : i + 1])[0] for i in range(len(x))]
    return math.isclose(together, sum(alone), rel_tol=1e-4, abs_tol=1e-6)


# ---- do examples add up? ---------------------------------------------------------------------------------------------


def _random_outputs(loss: Loss, outputs: Tensor, y: Tensor) -> Tensor:
    """Outputs of this shape of which the loss is finite: any numbers, probabilities, or their logarithms."""
    generator = torch.Generator().manual_seed(0)
    dtype = outputs.dtype if outputs.itemsize >= 4 else torch.float32
    numbers = torch.randn(outputs.shape, generator=generator).to(outputs.device, dtype)
    if numbers.is_complex():
        return numbers
    shares = numbers.softmax(-1) if outputs.dim() > 1 else numbers.sigmoid()
    for drawn in (numbers, shares, shares.log()):
        total = _loss_of(loss, drawn, y)
        if total is not None and math.isfinite(total):
            return drawn
    return outputs


def _difference(loss: Loss, outputs: Tensor, y: Tensor, what: str) -> str | None:
    """What a batch costs beside its halves, if that is more or less than their sum; None if it adds up.

    It is tried with a target missing, too, if the loss takes that: halves with as many targets hide a mean.
    """
    batches = [y]
    mark = math.nan if y.is_floating_point() else IGNORE if y.dtype.is_signed and y.device.type == "cpu" else None
    if mark is not None:
        with_gap = _with_gap(y, mark)
        batches += [with_gap] * math.isfinite(_loss_of(loss, outputs, with_gap) or math.nan)
    for batch in batches:
        total, count = _sum_and_count(loss, outputs, batch, what)
        halves = zip(outputs.chunk(2), batch.chunk(2), strict=True)
        totals, counts = zip(*(_sum_and_count(loss, *half, what) for half in halves), strict=True)
        tolerance = 1e-5 * sum(map(abs, totals)) + 1e-12
        if abs(total - sum(totals)) > tolerance:
            return f"{total:.4g} for {len(y)} examples, but {totals[0]:.4g} and {totals[1]:.4g} for their halves"
        if not math.isclose(count, sum(counts), rel_tol=1e-5, abs_tol=1e-9):
            return f"a count of {count:g} for {len(y)} examples, but {counts[0]:g} and {counts[1]:g} for their halves"
    return None


def _with_gap(y: Tensor, mark: float) -> Tensor:
    """The targets with a mark, as of a missing one, in place of the first that has none."""
    with_gap = y.clone()
    entries = with_gap.view(-1)
    unmarked = (~entries.isnan() if math.isnan(mark) else entries.ne(mark)).nonzero()
    entries[unmarked[:1]] = mark
    return with_gap


def _sum_and_count(loss: Loss, outputs: Tensor, y: Tensor, what: str) -> tuple[float, float]:
    """As numbers. Raises ValueError if the loss takes no batch of this size."""
    try:
        total, count = sum_and_count(loss, outputs, y)
        return total.item(), count.item()
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise ValueError(
            f"the loss does not take {len(y)} examples ({what}): {type(error).__name__}: {error}"
        ) from error


def _loss_of(loss: Loss, outputs: Tensor, y: Tensor) -> float | None:
    """The sum; None where the loss does not take such outputs or targets."""
    try:
        return sum_and_count(loss, outputs, y)[0].item()
    except Exception as error:
        if is_out_of_memory(error):
            raise
        return None


# ---- is the number of targets what it is to be divided by? -----------------------------------------------------------


def _require_sum_over_entries(loss: Loss, outputs: Tensor, y: Tensor, total: float, what: str) -> None:
    """A sum over all targets adds up along each of their axes. One over examples, of means over their entries, does not."""
    for axis in range(1, y.dim()):
        if y.shape[axis] == 1:
            continue
        if not any(_adds_up_along(loss, outputs, y, axis, c, total) for c in _class_axes(outputs, y)):
            raise ValueError(
                f"the loss is not a sum over the {y[0].numel()} targets of each example: cut along axis {axis} of the "
                f"targets, its parts do not add up ({what}). Say what to divide by: loss=pair, if it is a sum over examples:"
                f"{_lines('', 'len(targets)')}"
            )


def _class_axes(outputs: Tensor, y: Tensor) -> list[int | None]:
    """Where the classes may be among the axes of the outputs; None if these have no axis more than the targets."""
    if outputs.shape == y.shape:
        return [None]
    axes = sorted({1, outputs.dim() - 1}) if outputs.dim() == y.dim() + 1 else []
    return [axis for axis in axes if outputs.movedim(axis, -1).shape[:-1] == y.shape]


def _adds_up_along(loss: Loss, outputs: Tensor, y: Tensor, axis: int, class_axis: int | None, total: float) -> bool:
    """Whether the loss is that of the first entries along an axis of the targets plus that of the others."""
    sizes = [1, y.shape[axis] - 1]
    along = axis + (class_axis is not None and class_axis <= axis)
    parts = [_loss_of(loss, *part) for part in zip(outputs.split(sizes, along), y.split(sizes, axis), strict=True)]
    return None not in parts and math.isclose(sum(parts), total, rel_tol=1e-4, abs_tol=1e-6)


def _require_cost_of_all(loss: Loss, outputs: Tensor, y: Tensor, labels: Tensor, what: str) -> None:
    """Targets that cost nothing whatever the outputs, padding or gaps, would be counted all the same."""
    if uncounted := _uncounted(loss, outputs, y, labels):
        value, count = uncounted
        raise ValueError(
            f"targets that are {value} cost nothing, but would be counted ({what}). Say what to divide by: loss=pair, if "
            f"they do not count:{_lines('', count)}"
        )


def _uncounted(
    loss: Loss, outputs: Tensor, y: Tensor, labels: Tensor, is_mean: bool = False
) -> tuple[object, str] | None:
    """A value of targets that the loss leaves out, and how to count the others; None if there is none.

    Targets of that value alone cost nothing, or their mean is that of nothing: NaN.
    """
    if y.is_floating_point():
        whole = y.nan_to_num()
        rest = _loss_of(loss, outputs, _with_gap(whole, math.nan))
        # The same as of all of them: the loss looks at no target.
        if rest is not None and math.isfinite(rest) and rest != _loss_of(loss, outputs, whole):
            return "NaN", "(~targets.isnan()).sum()"
    if labels.is_complex():  # which have no order that would find the frequent ones
        return None
    values, times = labels.flatten()[:SAMPLE].unique(return_counts=True)
    values = values[times.argsort(descending=True)[:MOST_FREQUENT]].tolist()
    axes = [axis for axis in _class_axes(outputs, y) if axis is not None]
    if axes and y.dtype == torch.int64:
        classes = outputs.shape[axes[0]]
        values += [0, 1, classes - 1]
        if y.device.type == "cpu":  # a GPU does not survive a label that is out of range
            values += [-1, *([255] if classes < 255 else [])]
    for value in dict.fromkeys(values):
        if (axes and value == IGNORE) or math.isnan(value):
            continue
        cost = _loss_of(loss, outputs, torch.full_like(y, value))
        if cost == 0 or (is_mean and cost is not None and math.isnan(cost)):
            return value, f"targets.ne({value}).sum()"
    return None


# ---- the lines that say it -------------------------------------------------------------------------------------------


ONE_SHAPE = """. Give both one shape, by loss=one_shape say:
    from utils.loop.metrics import sum_and_count
    def one_shape(outputs, targets):
        return sum_and_count(loss, outputs.reshape(targets.shape), targets)"""


def _lines(times: str, count: str) -> str:
    return f"""
    def pair(outputs, targets):
        return loss(outputs, targets){times}, {count}"""


def _lines_for_a_mean(loss: Callable, outputs: Tensor, y: Tensor, labels: Tensor, is_pair: bool) -> str:
    function, settings = (loss.func, "**loss.keywords") if isinstance(loss, partial) and not loss.args else (loss, "")
    for known_function, module in MODULES.items():
        if function is known_function:
            return f". Or pass torch's module, loss=torch.nn.{module.__name__}({settings})"
    if is_pair:
        return """. Or pass loss=pair, if it is the mean over what the count counts:
    def pair(outputs, targets):
        mean, count = loss(outputs, targets)
        return mean * count, count"""
    say = ". Or say what it is the mean of, by loss=pair:"
    axes = _class_axes(outputs, y)
    are_labels = axes and axes != [None] and y.dtype == torch.int64
    _, count = _uncounted(loss, outputs, y, labels, is_mean=True) or (
        IGNORE,
        f"targets.ne({IGNORE}).sum()" if are_labels else None,
    )
    if count:  # the mean of no target is NaN
        return f"""{say}
    def pair(outputs, targets):
        count = {count}
        return torch.where(count > 0, loss(outputs, targets) * count, 0 * outputs.sum()), count"""
    count = "targets.numel()" if axes == [None] else "len(targets)"
    return f"{say}{_lines(f' * {count}', count)}"
