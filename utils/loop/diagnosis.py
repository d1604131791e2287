"""Error messages that name the step, the examples, the value and the next move."""

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, nn
from torch.nn.utils import get_total_norm
from torch.utils._pytree import tree_leaves
from torch.utils.data import Dataset

from utils.data.order import Order, batches
from utils.data.own_order import OwnOrder
from utils.data.trees import Tree, count_examples, named_leaves, split, tensors, to_device
from utils.device import ask_device, is_accelerator
from utils.distributed.parallel import full_tensor, to_local
from utils.loop.guards import Snapshot, all_finite
from utils.loop.metrics import Loss, sum_and_count
from utils.loop.optim import lr_factor
from utils.loop.reading import Stream, size_of
from utils.loop.state import State


@contextmanager
def name_examples_in_errors(order: Order, step: int, what: str):
    """Add `what` and the examples of `step` to errors of the model or the loss within the block.

    Raises ValueError if the cause is known.
    """
    try:
        yield
    except Exception as error:
        explain(error, f"{what}, {format_batch(order, step, of_rank=True)}")
        raise


def explain(error: Exception, what: str) -> None:
    """Add `what`, the place of the error, to an error. Raises ValueError instead if the cause is known."""
    if isinstance(error, IndexError):  # a CPU's error for a label or a token that is out of range
        raise ValueError(f"{what}: {error}. Is a label or token out of range?") from error
    if words := in_plain_words(error):
        raise ValueError(f"{what}: {words}") from error
    error.add_note(f"in {what}")


def in_plain_words(error: Exception) -> str | None:
    """The cause and the next move, of an error of torch's that names neither here; None for any other."""
    text = str(error)
    if "does not require grad" in text and torch.is_grad_enabled():
        return "the loss does not depend on a parameter that trains: is something detached on the way to it?"
    if "does not require grad" in text:
        return (
            "gradients are taken in the forward pass, and validation runs without: turn them on there:\n"
            "    with torch.enable_grad():\n"
            "        ...  # what is differentiated, from x.requires_grad_() on"
        )
    if "does not have a deterministic" in text:
        return (
            f"{text.split(',')[0]}, and train asks for deterministic kernels: Config(deterministic=False) does without "
            "them, and the same run may then end with other bits"
        )
    if "have the same dtype" in text or (text.startswith("Input type") and "should be the same" in text):
        return f"{text}: give both one type, the data that of the weights, by x.float() say"
    if "can't be cast to the desired output type" in text:
        return f"{text}: the loss computes with real numbers, which the targets become by .float()"
    if "expected target dtype to be Long" in text or "expected scalar type Long" in text:
        return (
            f"{text}: class indices are of dtype int64, which they become by .long(); or pass a loss for real numbers"
        )
    if "finished reduction in the prior iteration" in text:
        return no_gradient_message("a parameter")
    return None


def require_every_gradient(state: State) -> None:
    """Raises ValueError if DDP still waits for a gradient: it sums a bucket of them over ranks when all have come."""
    if state.ranks.world == 1 or state.config.parallel != "ddp" or all(p.grad is not None for p in state.parameters):
        return
    names = [name for name, p in state.model.named_parameters() if p.requires_grad and p.grad is None]
    raise ValueError(no_gradient_message(f"{names[0]} of the model"))


def no_gradient_message(what: str) -> str:
    return (
        f"{what} gets no gradient, and several ranks would wait for it: freeze it by requires_grad_(False), or let it take "
        "part in every forward, times 0 where it is not needed"
    )


def format_batch(order: Order | OwnOrder | Stream, step: int, of_rank: bool = False) -> str:
    """The examples of `step` (from 0) for a message: of this rank alone if `of_rank`. Those of a stream have no index."""
    if isinstance(order, Stream):
        return f"batch {step + 1} of train_data"
    return f"examples {format_indices(order.indices(step) if of_rank else order.batch(step))}"


def format_indices(indices: Tensor) -> str:
    """Indices for an error message: the first eight, and their number."""
    shown = ", ".join(map(str, indices[:8].tolist()))
    return f"[{shown}, … {len(indices)} in all]" if len(indices) > 8 else f"[{shown}]"


# ---- out of memory ---------------------------------------------------------------------------------------------------


def out_of_memory_message(state: State, error: Exception, x: Tree, y: Tree) -> str:
    """How many examples did not fit, and what they found in memory: the bytes held besides activations, by kind."""
    moments = [value for values in state.optimizer.state.values() for value in values.values()]
    held = {
        "parameters": state.model.parameters(),
        "gradients": state.parameters,  # gradients have the size of their parameters
        "optimizer": (value for value in moments if isinstance(value, Tensor)),
        "average": [*state.ema.model.parameters(), *state.ema.model.buffers()] if state.ema else [],
        "buffers": state.model.buffers(),
        "batch": tensors((x, y)),
    }
    held = {kind: sum(tensor.nbytes for tensor in to_local(tensors)) for kind, tensors in held.items()}
    allocated = ask_device(state.device, "memory_allocated") if is_accelerator(state.device) else None
    if allocated is not None:
        held["activations and others"] = allocated - sum(held.values())
    at_once = -(-count_examples(x) // state.n_micro_batches)
    examples = "one example" if at_once <= 1 else f"{at_once} examples"
    return (
        f"out of memory at step {state.step + 1} with {examples} at a time ({str(error).splitlines()[0]}). Bytes held "
        f"besides activations: {', '.join(f'{kind} {number:,}' for kind, number in held.items())}"
    )


# ---- NaN and infinity ------------------------------------------------------------------------------------------------


def bad_gradient_message(state: State, order: Order, data: Dataset, loss: Loss, step: int) -> str:
    """What was not finite in `step` (from 0), and in which examples. Repeats the step to find out."""
    lr = state.scheduler.base_lrs[0] * lr_factor(state.config, step, factors=state.factors)
    what, suspects = _first_not_finite_of_step(state, data, order, loss, step)
    of_stream = isinstance(order, Stream)
    look_at = "this batch" if of_stream else "these examples"
    if len(suspects):
        look_at = f"example{'s' * (len(suspects) > 1)} {format_indices(suspects)}"
        look_at += " of this batch, counted from 0" * of_stream
    in_data = what.startswith(("the input", "the target"))
    smaller_steps = "" if in_data or step == 0 else ", lower lr or set clip"
    reason = state.before.why_it_cannot_be_undone()
    but = f" (not so all buffers: {reason})" if reason else ""
    return (
        f"the gradient of step {step + 1} is not finite (lr {lr:.3g}, {format_batch(order, step)}): {what}. The weights are "
        f"those before it{but}. Look at {look_at}{smaller_steps}; nonfinite='skip' continues without such steps"
    )


def too_many_skips_message(state: State, order: Order, first: int) -> str:
    """The run of skipped updates that began with step `first` (from 0)."""
    last = first + state.guard.limit
    return (
        f"{state.guard.limit} updates in a row were not finite, the last of them at step {last} "
        f"({format_batch(order, last - 1)}); the weights are those before them. Look at the data, lower lr, or allow more "
        "by max_skips"
    )


def _first_not_finite_of_step(state: State, data: Dataset, order: Order, loss: Loss, step: int) -> tuple[str, Tensor]:
    """What was not finite in a step (from 0), and in which examples (B,), if only in some.

    It is the first thing that any rank finds when it repeats its share of the step.
    """
    if isinstance(order, Stream):
        if order.last_step != step:
            return "its batch has gone by, and was not looked at (a CPU looks at once)", torch.tensor(
                [], dtype=torch.int64
            )
        batch, indices = order.last, torch.arange(size_of(order.last))
    else:
        batch, indices = next(batches(data, order, step, step + 1)), order.indices(step).cpu()
    x, y = to_device(tuple(batch), state.device)
    count = min(state.n_micro_batches, order.smallest_share(step))
    parts = zip(split(x, count), split(y, count), strict=True)
    what, rows = first_not_finite(state.model, loss, parts, state.autocast)
    found = state.ranks.gather((what, indices[rows if len(rows) < count_examples(x) else []]))
    bad = [(what + f" on rank {r}" * (len(found) > 1), examples) for r, (what, examples) in enumerate(found) if what]
    # With FSDP a bad gradient of one rank reaches the shards of others, and its norm reaches all.
    bad.sort(key=lambda pair: (pair[0].startswith("the norm"), pair[0].startswith("the gradient")))
    if not bad:
        return "could not be reproduced, every tensor was finite when it was repeated", indices[:0]
    return f"{bad[0][0]} is not finite", bad[0][1]


def first_not_finite(
    model: nn.Module,
    loss: Loss,
    parts: Iterable[tuple[Tree, Tree]],
    autocast: AbstractContextManager,
) -> tuple[str | None, list[int]]:
    """Repeat a step on `parts` and return the first thing that is not finite, in the order of computation: an input, a
    target, a module's output, the loss, a parameter's gradient, or the norm of all gradients (above 1.8e19 its square
    overflows float32). None if everything is finite, for example because the failure was random. With it the numbers of
    the examples that it is not finite for, if it has a row for each.

    parts: the (x, y) of each micro-batch. Weights and buffers do not change; gradients are overwritten.
    """
    found: list[tuple[str, list[int]]] = []
    seen = size = 0  # examples in the parts before, and in this one

    def inspect(what: str, values: object, by_example: bool = True) -> None:
        for leaf in tree_leaves(values):
            if isinstance(leaf, Tensor) and not leaf.isfinite().all():
                rows = []
                if by_example and leaf.dim() and len(leaf) == size:
                    rows = leaf.isfinite().logical_not_().reshape(size, -1).any(1).nonzero().flatten().tolist()
                found.append((what, [seen + row for row in rows]))
                return

    hooks = [
        module.register_forward_hook(
            lambda module, _, output, name=name: inspect(
                f"the output of {name or 'the model'} ({type(module).__name__})", output
            )
        )
        for name, module in model.named_modules()
    ]
    hooks += [
        parameter.register_post_accumulate_grad_hook(
            lambda parameter, name=name: inspect(f"the gradient of {name}", parameter.grad, by_example=False)
        )
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    ]
    before = Snapshot(model).take()
    model.zero_grad()
    try:
        for x, y in parts:
            seen, size = seen + size, count_examples(x)
            for what, tree in (("the input", x), ("the target", y)):
                for place, leaf in named_leaves(tree, ""):
                    inspect(f"{what}{place and ' ' + place}", leaf)
            with autocast:
                total, _ = sum_and_count(loss, model(x), y)
            inspect("the loss", total)
            total.backward()
        norm = full_tensor(get_total_norm([p.grad for p in model.parameters() if p.grad is not None]))
        inspect("the norm of the gradient, all of whose numbers are finite,", norm)
        return next(iter(found), (None, []))  # only after all parts: other ranks may wait for this one in theirs
    finally:
        before.restore()
        for hook in hooks:
            hook.remove()


def require_finite(state: State) -> None:
    """Raises FloatingPointError, on every rank, if a weight or an initially finite buffer is not finite any more.

    A finite gradient can cause too large an update, and a finite input can overflow the variance of a BatchNorm. No policy
    helps: every later step would be blocked, or every later output wrong. Waits for the device.
    """
    if state.ranks.any(not all_finite(to_local(state.parameters))):
        raise FloatingPointError(
            f"a weight is not finite after step {state.step}: a finite gradient caused too large an update (lr "
            f"{state.scheduler.base_lrs[0]:.3g}, weight_decay {state.config.weight_decay:.3g}). Lower them and start a new "
            "run: what was saved before is finite, and may be large already"
        )
    buffers = dict(state.model.named_buffers())  # not get_buffer, which scripted modules lack
    bad = [name for name in state.finite_buffers if not all_finite([buffers[name]])]
    if bad := state.ranks.of_first(bad):
        raise FloatingPointError(
            f"the buffer {bad[0]} is not finite after step {state.step}, though every update was: look for inputs or "
            "activations whose square overflows. It will not recover: resume from the newest checkpoint, saved before this "
            "step"
        )


def require_finite_training_loss(state: State, loss: float | None) -> None:
    """Raises FloatingPointError if the mean loss since the last record is not finite, under the policy "raise"."""
    if loss is not None and not math.isfinite(loss) and state.config.nonfinite == "raise":
        raise FloatingPointError(
            f"the training loss since the last record is {loss} at step {state.step}, though every gradient was finite: "
            "does the loss contain a constant inf or NaN term, or log(0) for some target? nonfinite='skip' continues"
        )


def selected_number(state: State, record: dict) -> float:
    """The number of a validation's record by which the best is selected.

    Raises ValueError if it is missing, and FloatingPointError if it is not finite, under the policy "raise".
    """
    name, select = state.config.selected, state.config.select
    value = record.get(name)
    if value is None:
        has = ", ".join(key for key, number in record.items() if key != "step" and number is not None)
        raise ValueError(
            f"select is {select!r}, and the record of the validation after step {state.step} has no {name} (it has {has}): "
            f"let on_step return it for each record that has a val_loss:\n"
            f"    def on_step(record, model):\n"
            f'        return {{{name!r}: ...}} if "val_loss" in record else None'
        )
    if not math.isfinite(value) and state.config.nonfinite == "raise":
        raise FloatingPointError(
            f"{name}, by which the best is selected, is {value} after step {state.step}: return a finite number, also where "
            "it is undefined; nonfinite='skip' continues, and never counts such a validation as the best"
        )
    return value


def require_finite_validation_loss(state: State, loss: float) -> None:
    """Raises FloatingPointError if the validation loss is not finite, under the policy "raise"."""
    if not math.isfinite(loss) and state.config.nonfinite == "raise":
        raise FloatingPointError(
            f"the validation loss is {loss} after step {state.step}, though every update was finite: look for inputs or "
            "activations that overflow; nonfinite='skip' continues, and never counts such a loss as the best"
        )
