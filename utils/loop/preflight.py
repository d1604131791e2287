"""What `train` refuses before its first step: arguments that cannot work, or a model, data and a loss that do not fit."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from traceback import extract_tb

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm  # not the public ones: apex and others derive theirs from it
from torch.utils.data import Dataset, TensorDataset

from utils.data.datasets import TensorData
from utils.data.order import Order, first_examples
from utils.data.own_order import OwnOrder
from utils.data.trees import Tree, described, map_tensors, named_leaves, to_device
from utils.device import autocast, own_random_streams
from utils.distributed.parallel import warm_up_buckets
from utils.distributed.ranks import Ranks
from utils.loop.batch_form import advice_on_calling, check_batch, check_outputs, pair_of
from utils.loop.config import CHOICES, Config
from utils.loop.diagnosis import in_plain_words, require_every_gradient
from utils.loop.guards import eval_mode, is_out_of_memory, without_a_trace
from utils.loop.loss_trial import (
    ONE_SHAPE,
    adds_up_through_the_model,
    lines_of_a_pair,
    parts_of_the_batch,
    reads_attributes,
    reads_the_model,
    reads_whole_batches,
    try_loss,
    try_loss_of_the_model,
    with_these_fixed,
)
from utils.loop.metrics import ENTRIES, UNSAID_LOSS, KnownLoss, Loss, as_known_loss, loss_with_count, squared_error_sum
from utils.loop.schedule import BY_CONFIG
from utils.loop.state import State

NOT_THEIRS = (Path(torch.__file__).parent, Path(__file__).parent.parent)  # torch and this package


def check_arguments(
    model: object,
    config: object,
    loss: object,
    optimizer: object = None,
    on_step: object = None,
    progress: object = False,
    dollars_per_hour: object = 0.0,
    peak_flops: object = 0.0,
) -> None:
    """Raises ValueError unless each argument of `train` is of the right kind: a model whose weights are there, a Config,
    functions (optimizer and on_step may be None), a bool, and numbers that are at least 0.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model is {model!r}: pass an nn.Module, which calling its class makes")
    if not is_dataclass(config) or isinstance(config, type):  # not isinstance: a copy of the module has its own class
        raise ValueError(f"config is {config!r}: pass a Config")
    check_kind_of_loss(loss)
    if isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(
            f"optimizer is an object, {type(optimizer).__name__}: pass a function of the model that returns one, "
            "optimizer=lambda model: optimizer"
        )
    if isinstance(optimizer, str) and optimizer in CHOICES["optimizer"]:
        raise ValueError(f"optimizer is {optimizer!r}, a setting: pass Config(optimizer={optimizer!r})")
    for name, function in {"optimizer": optimizer, "on_step": on_step}.items():
        if function is not None and not callable(function):
            raise ValueError(f"{name} is {function!r}: pass a function of {TAKES[name]}")
    if not isinstance(progress, bool):
        raise ValueError(f"progress is {progress!r}: it must be True or False")
    for name, number in {"dollars_per_hour": dollars_per_hour, "peak_flops": peak_flops}.items():
        if type(number) not in (int, float) or not 0 <= number < math.inf:
            raise ValueError(f"{name} is {number!r}: it must be a finite number, at least 0")
    check_wrapped(model)
    if config.ema and isinstance(model, torch.jit.ScriptModule):
        raise ValueError(
            f"ema is {config.ema}, and the model is scripted, so that copy.deepcopy, by which an average begins, does not "
            "copy its weights: pass the module that was scripted, and script it after training"
        )
    check_values(model)
    sparse = [name for name, module in model.named_modules() if getattr(module, "sparse", False) is True]
    if sparse:
        raise ValueError(
            f"{sparse[0]} of the model has sparse gradients, which cannot be clipped or fused: build it with sparse=False, "
            "and take an optimizer for dense gradients"
        )


TAKES = {"optimizer": "the model that returns a torch.optim.Optimizer", "on_step": "(record, model)"}


def check_kind_of_loss(loss: object) -> None:
    """Raises ValueError for what is no function of (outputs, targets)."""
    if not callable(loss):
        raise ValueError(f"the loss is {loss!r}: pass a function of (outputs, targets)")
    if isinstance(loss, type) and issubclass(loss, nn.Module):
        raise ValueError(f"the loss is a class: make an object of it, loss={name_in_torch(loss)}()")


def check_selection(config: Config, val_data: object, loss: Loss, on_step: object) -> None:
    """Raises ValueError if no validation can have the number by which the best is to be selected."""
    select, name = config.select, config.selected
    if val_data is None and select != Config.select:
        raise ValueError(f"select is {select!r}, and there is no validation: pass val_data, or leave select out")
    if name == "val_accuracy" and ((what := as_known_loss(loss)) is None or what.class_axis is None):
        raise ValueError(
            f"select is {select!r}, and only a cross-entropy of class indices has an accuracy: select by val_loss, or by a "
            "number that on_step adds"
        )
    if name not in ("val_loss", "val_accuracy") and on_step is None:
        raise ValueError(f"select is {select!r}, and nothing adds {name} to the record: pass on_step, which returns it")


def check_wrapped(model: nn.Module) -> None:
    """Raises ValueError for a wrapper that puts its own prefix before the name of every weight."""
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise ValueError(
            f"the model is wrapped in {type(model).__name__}, which renames its weights: pass model.module; on several "
            "GPUs start this script by torchrun --standalone --nproc-per-node=n, and train does the rest"
        )
    if isinstance(model, torch.jit.TopLevelTracedModule):
        raise ValueError(
            "the model is traced, and a trace keeps the one mode, train or eval, that it was made in: pass the module that "
            "was traced, and trace it after training"
        )
    if hasattr(model, "_orig_mod"):
        raise ValueError(
            "the model is wrapped by torch.compile, which renames its weights: pass model._orig_mod, compiled by "
            "Config(compile=True) or, with options of your own, by model._orig_mod.compile() before"
        )


def check_values(model: nn.Module) -> None:
    """Raises ValueError for a tensor without values, and for one that is not finite; a mask may hold infinities."""
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if isinstance(tensor, nn.parameter.UninitializedTensorMixin) or tensor.is_meta:
            raise ValueError(
                f"{name} of the model has no values yet: call a lazy model once; give one on meta memory by "
                "to_empty(device='cpu'), and load its weights"
            )
    statistics = [b for module in model.modules() if isinstance(module, _BatchNorm) for b in module.buffers()]
    finite = {id(p) for p in model.parameters() if p.requires_grad} | {id(b) for b in statistics}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.itemsize > 1 and not (tensor.isfinite() if id(tensor) in finite else ~tensor.isnan()).all():
            raise ValueError(
                f"{name} of the model is not finite to begin with: look at how it was initialised or loaded"
            )


@dataclass
class Fit:
    """What is known of a loss that has been tried on the model and the data."""

    loss: Loss  # with its count, where that needs no call
    reads_model: bool  # its weights, or what forward leaves on it: not the outputs alone


def check_data(state: State, order: Order, train_data: Dataset, val_data: Dataset | None, loss: Loss) -> Loss:
    """Raises ValueError unless the model, the data and the loss fit together. Returns the loss, with its count."""
    fit = check_fit(state, train_data, loss, "train_data")
    check_parts(state)
    check_smallest_micro_batch(state, train_data, order)
    if val_data is None:
        return fit.loss
    if fit.reads_model and state.ema:
        raise ValueError(
            "the loss reads what is on the model, which is not the model that is validated: with ema that is the average "
            "of its weights, another module. Return what the loss reads among the outputs, (logits, self.aux) say, or "
            "train without ema"
        )
    check_fit(state, val_data, loss, "val_data")
    return fit.loss


def warm_up_ddp(state: State, data: Dataset) -> None:
    """One backward before the first step, so that DDP's bucket order is the same after a resume. Leaves no trace."""
    if state.ranks.world == 1 or state.config.parallel != "ddp":
        return
    x = to_device(first_examples(data, 2)[0], state.device)
    with without_a_trace(state.model, with_own_parameters=True), state.autocast:
        torch.manual_seed(state.config.seed)  # all ranks leave out the same layers, if any
        warm_up_buckets(state.forward, x)
        require_every_gradient(state)


def check_fit(state: State, data: Dataset, loss: Loss, name: str) -> Fit:
    """Two examples through the model, in eval mode and without a trace: the model, the data and the loss fit together.

    Raises ValueError saying what of `name` does not fit, with shapes and types.
    """
    if len(data) == 0:
        raise ValueError(f"{name}: the dataset is empty")
    x, y = pair_of(attempt(lambda: first_examples(data, 2), f"{name} cannot be read"), name, data)
    if hasattr(data, "collate") or getattr(data, "pure", False):
        check_batch(x, y, min(2, len(data)), name)
        check_batch(*first_examples(data, 1), 1, name)  # two steps of a sequence may pass for two examples
    what = f"{name}: {described(x, 'x')}, {described(y, 'y')}"
    x, y = to_device(x, state.device), to_device(y, state.device)
    with without_a_trace(state.model), eval_mode(state.model), torch.no_grad(), state.autocast:
        outputs = attempt(
            lambda: state.model(x), f"the model does not take the data ({what})", lambda: advice_on_calling(data, x)
        )
        labels = _targets(data, y)
        fit = check_loss(state, loss, x, outputs, y, labels, what)
        state.additive = not state.ranks.any(not state.additive)  # all ranks call the model as often
        own = as_known_loss(loss) is None
        copied = state.model is not state.original_model
        if own and copied and state.ranks.any(reads_attributes(loss, state.original_model, outputs, y)):
            raise ValueError(
                "the loss reads what forward leaves on the model, and with fsdp a copy of it is trained: return what the "
                "loss reads among the outputs, (logits, self.aux) say, or train with parallel='ddp'"
            )
        if own and (state.additive or state.ema):
            reads_model = state.ranks.any(reads_the_model(loss, state.model, x, y))
            state.additive = state.additive and (not reads_model or adds_up_through_the_model(loss, state.model, x, y))
            fit.reads_model = fit.reads_model or reads_model
    recognised, every = as_known_loss(loss), len(data) <= 2 or labels is not y
    if name == "val_data" and recognised and every and not recognised.count(labels.to(y.device)):
        raise ValueError(
            f"val_data: all targets are {recognised.ignored}, which count nowhere: there is nothing to validate on"
        )
    return fit


def check_own_loss(model: nn.Module, data: Dataset, loss: Loss, device: torch.device, precision: str) -> None:
    """What check_fit asks of a loss of the caller's own, for `evaluate`. Raises ValueError, as it does."""
    x, y = (to_device(part, device) for part in pair_of(first_examples(data, 2), "data", data))
    with eval_mode(model), own_random_streams(), torch.no_grad():
        with autocast(device, precision):
            outputs = model(x)
            check_outputs(outputs, None, "data")
            value = loss(outputs, y)
            fixed = parts_of_the_batch(model, x, outputs)
        check_value(value, "data")
        check_count(value, outputs, y, fixed, "data")
        if any(fixed):
            try_loss_of_the_model(loss, model, x, y, "data")
        else:
            try_loss(loss, isinstance(value, tuple), outputs, y, _targets(data, y), "data")


def check_outputs_and_targets(loss: Loss, outputs: Tree, y: Tree, name: str) -> None:
    """What check_fit asks of the shapes of outputs and targets, for `evaluate`. Raises ValueError, as it does."""
    if recognised := as_known_loss(loss):
        check_outputs(outputs, recognised, name)
        what = f"{name}: {described(y, 'y')}, {described(outputs, 'outputs')}"
        check_shapes(loss, recognised, outputs, y, y, what)


def check_smallest_micro_batch(state: State, data: Dataset, order: Order) -> None:
    """BatchNorm cannot train on one example, and a short last batch may hold no more.

    Raises ValueError if that will come up; it is tried, without a trace, where there is reason to doubt.
    """
    config = state.config
    normed = any(isinstance(module, _BatchNorm) and module.training for module in state.model.modules())
    if not normed or order.smallest_micro_batch(config.steps, config.accumulation) > 1:
        return
    x = to_device(first_examples(data, 1)[0], state.device)
    with without_a_trace(state.model), torch.no_grad(), state.autocast:
        attempt(
            lambda: state.model(x),
            "a micro-batch of one example would come up, which BatchNorm cannot train on: "
            + larger_micro_batches(order, config),
        )


def larger_micro_batches(order: Order, config: Config) -> str:
    """What makes micro-batches of one example larger: to leave out the short last batch helps if no other has one."""
    if order.smallest_micro_batch(1, config.accumulation) > 1:
        return f"leave out the short last batch by drop_last=True, or take another batch_size than {config.batch_size}"
    return f"take a larger batch_size than {config.batch_size}, or a smaller accumulation than {config.accumulation}"


def _targets(data: Dataset, first: Tree) -> Tree:
    """All targets of a dataset of two tensors; the first of any other."""
    if isinstance(data, TensorDataset) and len(data.tensors) == 2:
        return data.tensors[1]
    return data.y if isinstance(data, TensorData) else first


def check_ranks(
    ranks: Ranks,
    config: Config,
    order: Order,
    val_data: Dataset | None,
    run: str | Path | None,
    peak_flops: float,
    schedule: str = BY_CONFIG,
) -> None:
    """Raises ValueError, on every rank, unless all ranks were asked for the same run."""
    if ranks.world == 1:
        return
    asked = {
        "training examples": order.examples,
        "validation examples": None if val_data is None else len(val_data),
        "run folder": run,
        **({"order of some steps": order.digests} if isinstance(order, OwnOrder) else {}),
        "peak_flops": peak_flops,
        "schedule": schedule,
    }
    ranks.require_same("the run", asdict(config) | asked)


def check_parts(state: State) -> None:
    """Raises ValueError if a batch is to be computed in parts whose losses do not add up to its loss."""
    config, world = state.config, state.ranks.world
    if state.additive or (config.accumulation == 1 and world == 1):
        return
    asked = f"accumulation is {config.accumulation}" if config.accumulation > 1 else f"there are {world} ranks"
    raise ValueError(
        f"{asked}, but {NOT_ADDITIVE}. Train it with accumulation=1, in one process, on batches that fit into memory. A "
        "penalty that is added once for a batch can be made to add up: times the number of targets"
    )


# ---- the loss --------------------------------------------------------------------------------------------------------


NOT_ADDITIVE = (
    "the loss of a batch is not the sum of its parts' losses (it compares examples, has a term that is one for the whole "
    "batch, or draws numbers for each example by other than torch), so that in parts it would be another one"
)


def check_loss(state: State, loss: Loss, x: Tree, outputs: Tree, y: Tree, labels: Tree, what: str) -> Fit:
    """Raises ValueError unless `loss` says what to divide by, for outputs and targets of shapes that fit.

    x (B, ...), outputs (B, ...), y (B, ...): of a few examples. labels: all targets, or again y. what: the data, for the
    message. Notes in `state` whether the loss of a batch is the sum of its parts'. Returns whether it reads the weights,
    and not yet what forward leaves on the model.
    """
    recognised = as_known_loss(loss)
    check_outputs(outputs, recognised, what)
    what += f", {described(outputs, 'outputs')}"
    if recognised:
        check_shapes(loss, recognised, outputs, y, labels, what)
        check_labels(recognised, outputs, y, labels, what)
    outputs = map_tensors(Tensor.detach, outputs)
    with torch.enable_grad():  # so that parameters of its own show
        value = attempt(
            lambda: (recognised.sum if recognised else loss)(outputs, y),
            f"the loss does not take the model's outputs and the targets ({what})",
        )
    reads_weights = check_parameters(state, loss, check_value(value, what))
    if not recognised:
        fixed = parts_of_the_batch(state.model, x, outputs)
        check_count(value, outputs, y, fixed, what)
        if any(fixed) and reads_whole_batches(loss, state.model, x, y, fixed):
            try_loss_of_the_model(loss, state.model, x, y, what)
            state.additive = False
        else:
            with torch.autocast(state.device.type, enabled=False):  # rounding is not to hide a difference
                trial, rest = with_these_fixed(loss, outputs, fixed)
                state.additive &= try_loss(trial, isinstance(value, tuple), rest, y, labels, what)
    return Fit(loss_with_count(loss, value, outputs, y), reads_weights)


def check_count(value: object, outputs: Tree, y: Tree, fixed: list[bool], what: str) -> None:
    """Raises ValueError for a sum without a count of what is not one tensor of outputs and one of targets."""
    if isinstance(value, tuple) or (isinstance(outputs, Tensor) and isinstance(y, Tensor) and not any(fixed)):
        return
    targets = (
        "targets"
        if isinstance(y, Tensor)
        else next(place for place, leaf in named_leaves(y, "targets") if isinstance(leaf, Tensor))
    )
    count = f"len({targets})"
    raise ValueError(
        f"the loss does not say what to divide by, which of trees nobody knows ({what}). Say what it is by loss=pair, a sum "
        f"over the examples:{lines_of_a_pair('', count)}\nor their mean:{lines_of_a_pair(f' * {count}', count)}"
    )


def check_one_shape(loss: Loss, outputs: Tensor, y: Tensor, what: str) -> None:
    """Raises ValueError if a loss between numbers would broadcast the outputs or the targets, and cost each many times."""
    if (loss is squared_error_sum or type(loss) in ENTRIES) and outputs.shape != y.shape:
        raise ValueError(
            f"outputs and targets differ in shape, and the loss pairs an output with several targets or the reverse ({what})"
            f"{ONE_SHAPE if outputs.numel() == y.numel() else ': give both one shape'}"
        )


def check_value(value: object, what: str) -> Tensor:
    """The sum in what a loss has returned. Raises ValueError unless it is one number, alone or with a count."""
    total, count = value if isinstance(value, tuple) and len(value) == 2 else (value, 1)
    check_number(total, what)
    whole = isinstance(count, Tensor) and count.dim() == 0 and not count.is_complex()
    if not (whole or type(count) in (int, float)) or not 0 <= count < math.inf:
        raise ValueError(
            f"the loss is a tuple whose second is {count!r} ({what}): it must be the number that the sum is divided by, at "
            "least 0: (total, len(targets)) say"
        )
    return total


def check_number(total: object, what: str) -> None:
    shown = (
        f"of shape {tuple(total.shape)} and {total.dtype}" if isinstance(total, Tensor) else f"a {type(total).__name__}"
    )
    if not isinstance(total, Tensor) or total.dim() != 0 or not total.is_floating_point():
        raise ValueError(
            f"the loss is {shown} ({what}): it must be one real number, a 0-dim tensor summed over the targets, "
            "or a tuple of that and of the number to divide it by"
        )


def check_parameters(state: State, loss: Loss, total: Tensor) -> bool:
    """Whether there are parameters of the model in the loss. Raises ValueError for one that is not the model's, which would
    get a gradient and never move."""
    trained = {id(p) for p in (*state.parameters, *state.model.parameters())}  # the trial's are copies
    parameters = list(leaves(total))
    own = [p for p in parameters if id(p) not in trained]
    if own:
        named = loss.named_parameters() if isinstance(loss, nn.Module) else ()
        names = {id(p): name for name, p in named}
        name = names.get(id(own[0]), f"of shape {tuple(own[0].shape)}")
        raise ValueError(
            f"the loss has a parameter of its own ({name}), which no step would move: make it one of the model's (and, on "
            f"several ranks, use it in the model's forward){PARAMETERS if isinstance(loss, nn.Module) else PARAMETER}"
        )
    return bool(parameters)


PARAMETERS = """:
    for name, parameter in loss.named_parameters():
        model.register_parameter("loss_" + name.replace(".", "_"), parameter)"""
PARAMETER = ", model.temperature = torch.nn.Parameter(temperature) say, and let the loss read it there"


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


def check_shapes(loss: Loss, recognised: KnownLoss, outputs: Tree, y: Tree, labels: Tree, what: str) -> None:
    """Raises ValueError unless outputs and targets fit a loss of torch's or this package's.

    Those of a cross-entropy are classes, along the axis of the outputs that it takes. labels: all targets, or again y.

    Those of a cross-entropy are classes, along the axis of the outputs that it takes. call: "train" or "evaluate", for
    the lines.
    """
    if not isinstance(y, Tensor):
        raise ValueError(
            f"this loss takes one tensor of targets, and y is a {type(y).__name__} ({what}): pass a loss of (outputs, "
            "targets) that reads what it needs of them, and returns a sum and what to divide it by"
        )
    axis = recognised.class_axis
    if axis is None:
        check_one_shape(loss, outputs, y, what)
        return
    if y.dtype != torch.int64:
        if isinstance(loss, nn.CrossEntropyLoss) and y.is_floating_point():
            return  # soft targets
        raise ValueError(
            f"cross-entropy needs class indices of dtype int64 ({what}): {instead_of_classes(y, outputs, labels)}"
        )
    if outputs.dim() != y.dim() + 1 or outputs.movedim(axis, -1).shape[:-1] != y.shape:
        place = "their last" if axis in (-1, outputs.dim() - 1) else f"axis {axis}"
        classes_last = axis == 1 and outputs.shape[:-1] == y.shape
        raise ValueError(
            f"outputs must have one axis more than targets, the classes, as {place} ({what})"
            f"{FLAT if classes_last else fewer_axes(y, outputs)}"
        )
    if loss is UNSAID_LOSS and y.dim() > 1 and outputs.movedim(1, -1).shape[:-1] == y.shape:
        raise ValueError(
            f"the classes may be axis 1 of the outputs or the last, which are equally long ({what}): say axis 1 by "
            "loss=torch.nn.CrossEntropyLoss(), or the last by loss=cross_entropy_sum:\n"
            "    from utils.loop.metrics import cross_entropy_sum"
        )


FLAT = """. Where they are the last, pass loss=flat:
    from utils.loop.metrics import sum_and_count
    def flat(outputs, targets):
        return sum_and_count(loss, outputs.flatten(0, -2), targets.flatten())"""


def check_labels(recognised: KnownLoss, outputs: Tensor, y: Tensor, labels: Tensor, what: str) -> None:
    """Raises ValueError for class indices that are more than the classes."""
    axis = recognised.class_axis
    if axis is None or y.is_floating_point():
        return
    if not labels.numel():
        raise ValueError(f"there is not one target ({what})")
    classes, largest = outputs.shape[axis], int(labels.where(labels != recognised.ignored, -1).max())
    if largest >= classes:
        raise ValueError(
            f"label {largest} is out of range for {classes} classes ({what}): widen the model or fix the labels"
        )


def name_in_torch(kind: type) -> str:
    """What a reader calls a module's class; torch's are in torch.nn."""
    return f"torch.nn.{kind.__name__}" if kind.__module__.startswith("torch.nn.") else kind.__name__


def instead_of_classes(y: Tensor, outputs: Tensor, labels: Tensor) -> str:
    """What to do with targets that are not int64."""
    if y.is_floating_point() and y.shape == outputs.shape:
        return (
            "pass a loss for numbers, loss=torch.nn.MSELoss() for real ones, torch.nn.CrossEntropyLoss() for shares of "
            "classes, torch.nn.BCEWithLogitsLoss() for several labels at once"
        )
    if y.is_floating_point() and not labels.equal(labels.round()):
        return "of real numbers the model returns one for each target, and loss=torch.nn.MSELoss() compares them"
    return "call .long() on the targets, or pass another loss"


def fewer_axes(y: Tensor, outputs: Tensor) -> str:
    """What makes class indices of targets with an axis too many."""
    if y.dim() == outputs.dim() and y.shape[-1] == 1:
        return ": take targets.squeeze(-1)"
    if y.shape == outputs.shape and y.sum(-1).eq(1).all():
        return ": take targets.argmax(-1), if they are one-hot"
    return ""


# ---- code of the caller's --------------------------------------------------------------------------------------------


def attempt(call: Callable[[], object], what: str, advice: Callable[[], str] = str) -> object:
    """What code of the caller's returns. What torch refuses becomes a ValueError that begins with `what`, ends with advice.

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
        words = in_plain_words(error) or f"{type(error).__name__}: {error}"
        raise ValueError(f"{what}: {words}{_place_of(error)}{advice()}") from error


def _place_of(error: Exception) -> str:
    """The caller's own line that the error came through, the innermost: neither torch's nor this package's."""
    frames = [(Path(frame.filename), frame.lineno) for frame in extract_tb(error.__traceback__)]
    theirs = [place for place in frames if not any(place[0].is_relative_to(folder) for folder in NOT_THEIRS)]
    return f" ({theirs[-1][0].name}, line {theirs[-1][1]})" if theirs else ""
