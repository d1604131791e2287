"""What `train` refuses of a loss before its first step: it must be one real number, a sum over the targets."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from traceback import extract_tb

import torch
from torch import Tensor, nn

from utils.loop.guards import is_out_of_memory
from utils.loop.metrics import cross_entropy_sum
from utils.loop.state import State

Loss = Callable[[Tensor, Tensor], Tensor]
NOT_THEIRS = (Path(torch.__file__).parent, Path(__file__).parent.parent)


def tried(call: Callable[[], object], what: str) -> object:
    """What code of the caller's returns. What torch refuses becomes a ValueError that begins with `what`.

    An error of another kind is the code's own, an attribute that is missing, say: it gets a note.
    """
    try:
        return call()
    except Exception as error:
        if is_out_of_memory(error):
            raise
        if not isinstance(error, RuntimeError | ValueError | IndexError | TypeError):
            error.add_note(f"in a trial before the first step ({what})")
            raise
        raise ValueError(f"{what}: {type(error).__name__}: {error}{_place_of(error)}") from error


def _place_of(error: Exception) -> str:
    """The caller's own line that the error came through, the innermost: neither torch's nor this package's."""
    frames = [(Path(frame.filename), frame.lineno) for frame in extract_tb(error.__traceback__)]
    own = [place for place in frames if not any(place[0].is_relative_to(folder) for folder in NOT_THEIRS)]
    return f" ({own[-1][0].name}, line {own[-1][1]})" if own else ""


def check_loss(state: State, loss: Loss, outputs: Tensor, y: Tensor, labels: Tensor, what: str) -> None:
    """Raises ValueError unless `loss` is a sum over the targets, of outputs and targets of shapes that fit.

    outputs (B, ...), y (B, ...): of a few examples. labels: all targets, or again y. what: the data, for the message.
    """
    what += f", outputs {tuple(outputs.shape)} {outputs.dtype}"
    if loss is cross_entropy_sum:
        check_classes(y, outputs, labels, what)
    with torch.enable_grad():  # so that parameters of its own show
        total = tried(
            lambda: loss(outputs.detach(), y), f"the loss does not take the model's outputs and the targets ({what})"
        )
    check_number(total, what)
    check_parameters(state, loss, total)
    check_sum(loss, outputs, y, total.detach(), what)


def check_number(total: object, what: str) -> None:
    shown = (
        f"of shape {tuple(total.shape)} and {total.dtype}" if isinstance(total, Tensor) else f"a {type(total).__name__}"
    )
    if not isinstance(total, Tensor) or total.dim() != 0 or not total.is_floating_point():
        raise ValueError(
            f"the loss is {shown} ({what}): it must be one real number, a 0-dim tensor summed over the targets"
        )


def check_parameters(state: State, loss: Loss, total: Tensor) -> None:
    """A parameter in the loss that is not the model's gets a gradient and would never move."""
    trained = {id(p) for p in state.model.parameters()}
    own = [p for p in leaves(total) if id(p) not in trained]
    if own:
        named = loss.named_parameters() if isinstance(loss, nn.Module) else ()
        names = {id(p): name for name, p in named}
        name = names.get(id(own[0]), f"of shape {tuple(own[0].shape)}")
        raise ValueError(
            f"the loss has a parameter of its own ({name}), which no step would move: make it one of the model's (or, with "
            "fsdp, use it in the model's forward):\n"
            "    for name, parameter in loss.named_parameters():\n"
            '        model.register_parameter("loss_" + name.replace(".", "_"), parameter)\n'
            "    train(model, data, config=config, loss=loss)"
        )


def leaves(total: Tensor) -> Iterator[Tensor]:
    """The tensors that require a gradient of `total`."""
    seen, nodes = set(), [total.grad_fn]
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        nodes += [following for following, _ in node.next_functions]


def check_sum(loss: Loss, outputs: Tensor, y: Tensor, total: Tensor, what: str) -> None:
    """A batch twice over costs twice as much as once. A mean, of whatever weights, costs the same.

    Where outputs and targets differ in shape, (B, 1) and (B,), also example by example: if they are broadcast, the loss
    compares every output with every target.
    """
    if not math.isfinite(total) or math.isclose(total, 0, abs_tol=1e-6):
        return
    doubled = torch.cat([outputs, outputs]), torch.cat([y, y])
    twice = tried(
        lambda: loss(*doubled).item(), f"the loss does not take {2 * len(y)} examples, only {len(y)} ({what})"
    )
    if math.isclose(twice, total, rel_tol=1e-3):
        raise ValueError(
            f"the loss is a mean ({total:.4g} for {len(y)} examples, {twice:.4g} for the same twice over): return the sum "
            'over the targets, reduction="sum"; train divides by how many there are'
        )
    if outputs.shape == y.shape or outputs.numel() != y.numel() or len(y) < 2:
        return
    ones = [(outputs[i : i + 1], y[i : i + 1]) for i in range(len(y))]
    apart = tried(lambda: sum(loss(*one).item() for one in ones), f"the loss does not take a batch of one ({what})")
    if not math.isclose(apart, total, rel_tol=1e-3):
        raise ValueError(
            f"outputs and targets differ in shape, and the loss pairs every output with every target ({total:.4g} for "
            f"{len(y)} examples that cost {apart:.4g} one by one; {what}): give both one shape, outputs.squeeze(-1) say"
        )


def check_classes(y: Tensor, outputs: Tensor, labels: Tensor, what: str) -> None:
    if y.dtype != torch.int64:
        raise ValueError(
            f"cross-entropy needs class indices of dtype int64 ({what}): call .long(), or pass another loss"
        )
    if outputs.shape[:-1] != y.shape:
        raise ValueError(f"outputs must have one axis more than targets, the classes, as their last ({what})")
    classes, largest = outputs.shape[-1], int(labels.max()) if labels.numel() else -1
    if not labels.numel():
        raise ValueError(f"there is not one target ({what})")
    if largest >= classes:
        raise ValueError(
            f"label {largest} is out of range for {classes} classes ({what}): widen the model or fix the labels"
        )
