"""A loss of the caller's own is tried on random outputs: does it add up over examples, and is its count right?"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from utils.data.datasets import IGNORE
from utils.data.trees import Tree, count_examples, map_tensors, rows, split
from utils.loop.guards import is_out_of_memory
from utils.loop.metrics import Loss, sum_and_count
from utils.loop.same_draws import streams_drawn_from, with_same_draws

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


def try_loss(loss: Loss, is_pair: bool, outputs: Tree, y: Tree, labels: Tree, what: str) -> bool:
    """Whether the loss of a batch is the sum of its parts' losses, and its count the sum of theirs.

    is_pair: whether it returns a count, too. outputs (B, ...), y (B, ...): of one or two examples; the outputs give no more
    than their shape and type. labels: all targets that are known. what: the data, for the message. Trees go with a loss
    that returns a count.

    Raises ValueError for a sum without a count that is not one over all targets, and for a mean, with the lines that say
    what to divide by.
    """
    y = rows(y, [0, 0, -1, -1])  # the first half is one example twice, the second the other
    outputs = rows(outputs, [0, 0, -1, -1])
    original, loss = loss, without_chance(loss, outputs, y)
    outputs = _random_outputs(loss, outputs, y)
    total, _ = _sum_and_count(loss, outputs, y, what)
    if not math.isfinite(total) or total == 0:
        return True  # nothing can be told; where it is not finite, the first step will raise
    twice, _ = _sum_and_count(loss, *(rows(tree, [0, 1, 2, 3] * 2) for tree in (outputs, y)), what)
    if _is_mean(total, twice):
        raise ValueError(
            _mean_message(total, twice, y) + _lines_for_a_mean(original, loss, outputs, y, labels, is_pair)
        )
    difference = _difference(loss, outputs, y, what)
    if is_pair:
        return difference is None
    if difference:
        streams = streams_drawn_from(original, outputs, y)
        if elsewhere := [name for name in streams if name != "torch"]:
            raise ValueError(
                f"the loss draws random numbers by {elsewhere[0]}, so that whether it is a sum over the targets cannot be "
                f"tried ({difference}; {what}): draw them by torch, torch.rand(targets.shape, device=targets.device) say"
            )
        if outputs.shape != y.shape and outputs.numel() == y.numel():
            raise ValueError(
                f"outputs and targets differ in shape, and the loss pairs every output with every target ({difference}; "
                f"{what}){ONE_SHAPE}"
            )
        raise ValueError(
            f"the loss is not a sum over the targets ({difference}; {what}). Say what it is by loss=pair, a sum over the "
            f"examples:{lines_of_a_pair('', 'len(targets)')}\nor their mean:"
            f"{lines_of_a_pair(' * len(targets)', 'len(targets)')}"
        )
    _require_sum_over_entries(loss, outputs, y, total, what)
    _require_cost_of_all(loss, outputs, y, labels, what)
    return True


def try_loss_of_the_model(loss: Loss, model: nn.Module, x: Tree, y: Tree, what: str) -> None:
    """Raises ValueError, as try_loss does, for a mean with a count, where the outputs of a batch cannot be drawn."""
    x, y = rows(x, [0, 0, -1, -1]), rows(y, [0, 0, -1, -1])
    loss = without_chance(loss, model(x), y)
    total, _ = _sum_and_count(loss, model(x), y, what)
    double = [rows(tree, [0, 1, 2, 3] * 2) for tree in (x, y)]
    twice, _ = _sum_and_count(loss, model(double[0]), double[1], what)
    if _is_mean(total, twice):
        raise ValueError(_mean_message(total, twice, y) + LINES_FOR_A_PAIR)


def _is_mean(total: float, twice: float) -> bool:
    """Whether a loss is as large for a batch twice over."""
    return not math.isclose(total, 0, abs_tol=1e-6) and math.isclose(twice, total, rel_tol=1e-3)


def _mean_message(total: float, twice: float, y: Tree) -> str:
    return (
        f"the loss is a mean ({total:.4g} for {count_examples(y)} examples, {twice:.4g} for the same twice over): return "
        'the sum over the targets, reduction="sum"'
    )


def reads_the_model(loss: Loss, model: nn.Module, x: Tree, y: Tree) -> bool:
    """Whether the loss is another one, for the same outputs and targets, once the model has seen other inputs.

    Such a loss reads what forward leaves behind, a router's load say.
    """
    with _no_zero_weights(model):
        outputs = model(x)
        loss = without_chance(loss, outputs, y)
        before = sum_and_count(loss, outputs, y)[0]
        model(rows(x, slice(1)))
        return not torch.equal(before, sum_and_count(loss, outputs, y)[0])


def reads_attributes(loss: Loss, model: nn.Module, outputs: Tree, y: Tree) -> bool:
    """Whether the loss is another one once the numbers and tensors on this model's modules are others."""
    loss = without_chance(loss, outputs, y)
    before = sum_and_count(loss, outputs, y)[0]
    kept = [
        (vars(module), name, value)
        for module in model.modules()
        for name, value in vars(module).items()
        if isinstance(value, Tensor | float | int) and not isinstance(value, bool)
    ]
    try:
        for held, name, value in kept:
            held[name] = 2 * value + 1
        return not torch.equal(before, sum_and_count(loss, outputs, y)[0])
    finally:
        for held, name, value in kept:
            held[name] = value


def adds_up_through_the_model(loss: Loss, model: nn.Module, x: Tree, y: Tree) -> bool:
    """Whether the loss of the examples x, y is the sum of each one's, the model being called on them together and alone."""
    with _no_zero_weights(model):
        loss = without_chance(loss, model(x), y)
        together = sum_and_count(loss, model(x), y)[0]
        each = [slice(i, i + 1) for i in range(count_examples(x))]
        alone = [sum_and_count(loss, model(rows(x, one)), rows(y, one))[0] for one in each]
    return math.isclose(together, sum(alone), rel_tol=1e-4, abs_tol=1e-6)


@contextmanager
def _no_zero_weights(model: nn.Module) -> Iterator[None]:
    """Within the block no weight is all zeros: a router that begins at zero balances every batch alike."""
    zeros = [p for p in model.parameters() if p.requires_grad and not isinstance(p, DTensor) and not p.any()]
    generator = torch.Generator().manual_seed(0)
    try:
        for parameter in zeros:
            parameter.data.copy_(torch.randn(parameter.shape, generator=generator))
        yield
    finally:
        for parameter in zeros:
            parameter.data.zero_()


# ---- does chance take part? ------------------------------------------------------------------------------------------


def without_chance(loss: Loss, outputs: Tree, y: Tree) -> Loss:
    """The loss itself, if it draws nothing and says the same twice; else with one number in place of all that it draws.

    outputs: no more than their shape and type matter.
    """
    numbers = _random_numbers(outputs)
    one, other = (_sum_and_count_of(loss, numbers, y) for _ in range(2))
    sure = one is not None and one == other and not streams_drawn_from(loss, numbers, y)
    return loss if sure else with_same_draws(loss)


# ---- outputs that are of a whole batch -------------------------------------------------------------------------------


def parts_of_the_batch(model: nn.Module, x: Tree, outputs: Tree) -> list[bool]:
    """Of each leaf of the outputs for x, whether it is a tensor without the batch first: one value for all of it, say."""
    leaves, examples = tree_leaves(outputs), count_examples(x)
    if isinstance(outputs, Tensor) and outputs.dim() and len(outputs) == examples:
        return [False]
    alone = tree_leaves(model(rows(x, slice(1))))  # since two classes are not two examples
    pairs = zip(leaves, alone, strict=True)
    return [isinstance(a, Tensor) and not (a.dim() and (len(a), len(b)) == (examples, 1)) for a, b in pairs]


def with_these_fixed(loss: Loss, outputs: Tree, fixed: list[bool]) -> tuple[Loss, Tree]:
    """The same loss of the other leaves alone, and these."""
    if not any(fixed):
        return loss, outputs
    leaves, form = tree_flatten(outputs)

    def on_the_rest(rest: list, targets: Tree):
        rest = iter(rest)
        merged = [leaf if keep else next(rest) for leaf, keep in zip(leaves, fixed, strict=True)]
        return loss(tree_unflatten(merged, form), targets)

    return on_the_rest, [leaf for leaf, keep in zip(leaves, fixed, strict=True) if not keep]


def reads_whole_batches(loss: Loss, model: nn.Module, x: Tree, y: Tree, fixed: list[bool]) -> bool:
    """Whether the loss depends on one of these leaves of the outputs, and it on what is in the batch."""
    with _no_zero_weights(model):
        outputs, alone = model(x), tree_leaves(model(rows(x, slice(1))))
        loss = without_chance(loss, outputs, y)
        leaves, form = tree_flatten(outputs)
        total = sum_and_count(loss, outputs, y)[0]
        for number in (i for i, is_fixed in enumerate(fixed) if is_fixed):
            leaf, other = leaves[number], alone[number]
            if leaf.shape == other.shape and torch.allclose(leaf, other, rtol=1e-5, atol=1e-8):
                continue  # a temperature: the same in every part
            changed = ~leaf if leaf.dtype == torch.bool else 2 * leaf + 1
            altered = tree_unflatten([*leaves[:number], changed, *leaves[number + 1 :]], form)
            if not torch.equal(total, sum_and_count(loss, altered, y)[0]):
                return True
    return False


# ---- do examples add up? ---------------------------------------------------------------------------------------------


def _random_outputs(loss: Loss, outputs: Tree, y: Tree) -> Tree:
    """Outputs of this shape of which the loss is finite: any numbers, probabilities, or their logarithms."""
    numbers = _random_numbers(outputs)
    shares = _map_floats(lambda leaf: leaf.softmax(-1) if leaf.dim() > 1 else leaf.sigmoid(), numbers)
    for candidate in (numbers, shares, _map_floats(Tensor.log, shares)):
        total = _loss_of(loss, candidate, y)
        if total is not None and math.isfinite(total):
            return candidate
    return outputs


def _random_numbers(outputs: Tree) -> Tree:
    """Indices among the outputs stay as they are."""
    generator = torch.Generator().manual_seed(0)

    def numbers(leaf: Tensor) -> Tensor:
        if not (leaf.is_floating_point() or leaf.is_complex()):
            return leaf
        dtype = leaf.dtype if leaf.itemsize >= 4 else torch.float32
        return torch.randn(leaf.shape, generator=generator).to(leaf.device, dtype)

    return map_tensors(numbers, outputs)


def _map_floats(function: Callable[[Tensor], Tensor], outputs: Tree) -> Tree:
    return map_tensors(lambda leaf: function(leaf) if leaf.is_floating_point() else leaf, outputs)


def _difference(loss: Loss, outputs: Tree, y: Tree, what: str) -> str | None:
    """What a batch costs beside its halves, if that is more or less than their sum; None if it adds up.

    It is tried with a target missing, too, if the loss takes that: halves with as many targets hide a mean.
    """
    examples = count_examples(y)
    for batch in (y, *_with_gaps(loss, outputs, y)):
        total, count = _sum_and_count(loss, outputs, batch, what)
        halves = zip(split(outputs, 2), split(batch, 2), strict=True)
        totals, counts = zip(*(_sum_and_count(loss, *half, what) for half in halves), strict=True)
        tolerance = 1e-5 * sum(map(abs, totals)) + 1e-12
        if abs(total - sum(totals)) > tolerance:
            return f"{total:.4g} for {examples} examples, but {totals[0]:.4g} and {totals[1]:.4g} for their halves"
        if not math.isclose(count, sum(counts), rel_tol=1e-5, abs_tol=1e-9):
            return f"a count of {count:g} for {examples} examples, but {counts[0]:g} and {counts[1]:g} for their halves"
    return None


def _with_gaps(loss: Loss, outputs: Tree, y: Tree) -> list[Tree]:
    """The targets with one missing, in each leaf in turn, as far as the loss takes that."""
    leaves, form = tree_flatten(y)
    gaps = []
    for number, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor) or not leaf.numel():
            continue
        on_cpu = leaf.device.type == "cpu"
        mark = math.nan if leaf.is_floating_point() else IGNORE if leaf.dtype.is_signed and on_cpu else None
        if mark is not None:
            gaps.append(tree_unflatten([*leaves[:number], _with_gap(leaf, mark), *leaves[number + 1 :]], form))
    return [gap for gap in gaps if math.isfinite(_loss_of(loss, outputs, gap) or math.nan)]


def _with_gap(y: Tensor, mark: float) -> Tensor:
    """The targets with a mark, as of a missing one, in place of the first that has none."""
    with_gap = y.clone()
    entries = with_gap.view(-1)
    unmarked = (~entries.isnan() if math.isnan(mark) else entries.ne(mark)).nonzero()
    entries[unmarked[:1]] = mark
    return with_gap


def _sum_and_count(loss: Loss, outputs: Tree, y: Tree, what: str) -> tuple[float, float]:
    """As numbers. Raises ValueError if the loss takes no batch of this size."""
    try:
        total, count = sum_and_count(loss, outputs, y)
        return total.item(), count.item()
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise ValueError(
            f"the loss does not take {count_examples(y)} examples ({what}): {type(error).__name__}: {error}"
        ) from error


def _loss_of(loss: Loss, outputs: Tree, y: Tree) -> float | None:
    """The sum; None where the loss does not take such outputs or targets."""
    values = _sum_and_count_of(loss, outputs, y)
    return values and values[0]


def _sum_and_count_of(loss: Loss, outputs: Tree, y: Tree) -> tuple[float, float] | None:
    try:
        total, count = sum_and_count(loss, outputs, y)
        return total.item(), count.item()
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
                f"{lines_of_a_pair('', 'len(targets)')}"
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
            f"they do not count:{lines_of_a_pair('', count)}"
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


def lines_of_a_pair(times: str, count: str) -> str:
    return f"""
    def pair(outputs, targets):
        return loss(outputs, targets){times}, {count}"""


LINES_FOR_A_PAIR = """. Or pass loss=pair, if it is the mean over what the count counts:
    def pair(outputs, targets):
        mean, count = loss(outputs, targets)
        return mean * count, count"""


def _lines_for_a_mean(given: Callable, loss: Loss, outputs: Tree, y: Tree, labels: Tree, is_pair: bool) -> str:
    """given: the caller's loss. loss: the same without chance."""
    function, settings = (
        (given.func, "**loss.keywords") if isinstance(given, partial) and not given.args else (given, "")
    )
    for known_function, module in MODULES.items():
        if function is known_function:
            return f". Or pass torch's module, loss=torch.nn.{module.__name__}({settings})"
    if is_pair:
        return LINES_FOR_A_PAIR
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
    return f"{say}{lines_of_a_pair(f' * {count}', count)}"
