"""What `train` refuses before its first step: arguments that cannot work, or a model, data and a loss that do not fit."""

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, is_dataclass
from pathlib import Path
from traceback import extract_tb

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import Dataset

from utils.data.datasets import IGNORE, TensorData
from utils.data.order import Order, first_examples
from utils.distributed.parallel import warm_up_buckets
from utils.distributed.ranks import Ranks
from utils.loop.config import Config
from utils.loop.diagnosis import in_plain_words, require_every_gradient
from utils.loop.guards import eval_mode, is_out_of_memory, without_a_trace
from utils.loop.metrics import Loss, count_targets, cross_entropy_sum
from utils.loop.state import State

NOT_THEIRS = (Path(torch.__file__).parent, Path(__file__).parent.parent)  # torch and this package


def check_arguments(
    model: object,
    config: object,
    loss: object,
    optimizer: object = None,
    on_log: object = None,
    progress: object = False,
    dollars_per_hour: object = 0.0,
    peak_flops: object = 0.0,
) -> None:
    """Raises ValueError unless each argument of `train` is of the right kind: a model whose weights are there, a Config,
    functions (optimizer and on_log may be None), a bool, and numbers that are at least 0.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model is {model!r}: pass an nn.Module, which calling its class makes")
    if not is_dataclass(config) or isinstance(config, type):  # not isinstance: a copy of the module has its own class
        raise ValueError(f"config is {config!r}: pass a Config")
    if not callable(loss):
        raise ValueError(f"the loss is {loss!r}: pass a function of (outputs, targets)")
    for name, function in {"optimizer": optimizer, "on_log": on_log}.items():
        if function is not None and (not callable(function) or isinstance(function, torch.optim.Optimizer)):
            raise ValueError(f"{name} is {function!r}: {ADVICE[name]}")
    if not isinstance(progress, bool):
        raise ValueError(f"progress is {progress!r}: it must be True or False")
    for name, number in {"dollars_per_hour": dollars_per_hour, "peak_flops": peak_flops}.items():
        if type(number) not in (int, float) or not 0 <= number < math.inf:
            raise ValueError(f"{name} is {number!r}: it must be a finite number, at least 0")
    check_wrapped(model)
    check_values(model)
    sparse = [name for name, module in model.named_modules() if getattr(module, "sparse", False) is True]
    if sparse:
        raise ValueError(
            f"{sparse[0]} of the model has sparse gradients, which cannot be clipped or fused: sparse=False"
        )


ADVICE = {
    "optimizer": "pass a function that makes one, since the model may be moved before:\n"
    "    train(model, data, optimizer=lambda model: torch.optim.RMSprop(model.parameters(), lr=1e-3))",
    "on_log": "pass a function of (record, model)",
}


def check_wrapped(model: nn.Module) -> None:
    """Raises ValueError for a wrapper that puts its own prefix before the name of every weight."""
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise ValueError(
            f"the model is wrapped in {type(model).__name__}, which renames its weights: pass model.module; on several "
            "GPUs start this script by torchrun --standalone --nproc-per-node=n, and train does the rest"
        )
    if hasattr(model, "_orig_mod"):
        raise ValueError(
            "the model is wrapped by torch.compile, which renames its weights: compile it in place, or have it compiled:\n"
            "    model.compile()  # with options of your own, in place of model = torch.compile(model)\n"
            "    train(model, data, config=Config(compile=True))"
        )


def check_values(model: nn.Module) -> None:
    """Raises ValueError for a tensor without values, and for one that is not finite; a mask may hold infinities."""
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if isinstance(tensor, nn.parameter.UninitializedTensorMixin) or tensor.is_meta:
            raise ValueError(
                f"{name} of the model has no values yet: call a lazy model once, move one on meta by to_empty"
            )
    statistics = [b for module in model.modules() if isinstance(module, _BatchNorm) for b in module.buffers()]
    finite = {id(p) for p in model.parameters() if p.requires_grad} | {id(b) for b in statistics}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.itemsize > 1 and not (tensor.isfinite() if id(tensor) in finite else ~tensor.isnan()).all():
            raise ValueError(
                f"{name} of the model is not finite to begin with: look at how it was initialised or loaded"
            )


def check_data(state: State, order: Order, train_data: Dataset, val_data: Dataset | None, loss: Loss) -> None:
    """Raises ValueError unless the model, the data and the loss fit together."""
    check_fit(state, train_data, loss, "train_data")
    check_smallest_micro_batch(state, train_data, order)
    if val_data is not None:
        check_fit(state, val_data, loss, "val_data")


def warm_up_ddp(state: State, data: Dataset) -> None:
    """One backward before the first step, so that DDP's bucket order is the same after a resume. Leaves no trace."""
    if state.ranks.world == 1 or state.config.parallel != "ddp":
        return
    x = first_examples(data, 2)[0].to(state.device)
    with without_a_trace(state.model, with_own_parameters=True), state.autocast:
        torch.manual_seed(state.config.seed)  # all ranks leave out the same layers, if any
        warm_up_buckets(state.forward, x)
        require_every_gradient(state)


def check_fit(state: State, data: Dataset, loss: Loss, name: str) -> None:
    """Two examples through the model, in eval mode and without a trace: the model, the data and the loss fit together.

    Raises ValueError saying what of `name` does not, with shapes and types.
    """
    if len(data) == 0:
        raise ValueError(f"{name}: the dataset is empty")
    x, y = _pair(attempt(lambda: first_examples(data, 2), f"{name} cannot be read"), name)
    what = f"{name}: x {tuple(x.shape)} {x.dtype}, y {tuple(y.shape)} {y.dtype}"
    x, y = x.to(state.device), y.to(state.device)
    with without_a_trace(state.model), eval_mode(state.model), torch.no_grad(), state.autocast:
        outputs = attempt(lambda: state.model(x), f"the model does not take the data ({what})")
        if not isinstance(outputs, Tensor):
            raise ValueError(
                f"the model returns a {type(outputs).__name__} ({what}): it must return one tensor{_wrapper_advice(outputs)}"
            )
        check_loss(state, loss, outputs, y, _targets(data, y), what)
    if name == "val_data" and count_targets(_targets(data, y)) == 0 and (len(data) <= 2 or _targets(data, y) is not y):
        raise ValueError(f"val_data: all targets are {IGNORE}, which count nowhere: there is nothing to validate on")


def check_smallest_micro_batch(state: State, data: Dataset, order: Order) -> None:
    """BatchNorm cannot train on one example, and a short last batch may hold no more.

    Raises ValueError if that will come up; it is tried, without a trace, where there is reason to doubt.
    """
    config = state.config
    normed = any(isinstance(module, _BatchNorm) and module.training for module in state.model.modules())
    if not normed or order.smallest_micro_batch(config.steps, config.accumulation) > 1:
        return
    x = first_examples(data, 1)[0].to(state.device)
    with without_a_trace(state.model), torch.no_grad(), state.autocast:
        attempt(
            lambda: state.model(x),
            "a micro-batch of one example would come up, which BatchNorm cannot train on: set drop_last, or another "
            f"batch_size than {config.batch_size} or accumulation than {config.accumulation}",
        )


def _targets(data: Dataset, first: Tensor) -> Tensor:
    """All targets of a TensorData; the first of any other dataset."""
    return data.y if isinstance(data, TensorData) else first


def check_ranks(
    ranks: Ranks,
    config: Config,
    order: Order,
    val_data: Dataset | None,
    run: str | Path | None,
    peak_flops: float,
) -> None:
    """Raises ValueError, on every rank, unless all ranks were asked for the same run."""
    if ranks.world == 1:
        return
    asked = {
        "training examples": order.examples,
        "validation examples": None if val_data is None else len(val_data),
        "run folder": run,
        "peak_flops": peak_flops,
    }
    ranks.require_same("the run", asdict(config) | asked)


def _pair(batch: object, name: str) -> tuple[Tensor, Tensor]:
    if isinstance(batch, tuple | list) and len(batch) == 2 and all(isinstance(part, Tensor) for part in batch):
        return batch[0], batch[1]
    shown, advice = f"a {type(batch).__name__}", ""
    if isinstance(batch, dict):
        shown = f"a dict with {', '.join(map(str, batch))}"
        advice = _collate_of(batch)
    if isinstance(batch, tuple | list):
        shown += f" of {', '.join(type(part).__name__ for part in batch)}"
        advice = COLLATE.format(x="batch[0]", y="batch[1]") if len(batch) > 2 else ""
    raise ValueError(
        f"{name}: an example must be a pair (x, y) of tensors or numbers; two of them came as {shown}{advice}"
    )


COLLATE = """. Say what of them is x and what is y, each one tensor:
    def collate(examples):
        batch = torch.utils.data.default_collate(examples)
        return {x}, {y}
    train(model, data, config=config, collate=collate)"""


def _collate_of(batch: dict) -> str:
    """The lines that make pairs of dicts: y is what is called so, x the first of the others."""
    y = next((name for name in ("labels", "label", "targets", "target", "y") if name in batch), None)
    x = next((name for name in batch if name != y), None)
    return COLLATE.format(x=f"batch[{x!r}]", y=f"batch[{y!r}]")


def _wrapper_advice(outputs: object) -> str:
    """The lines that take the one tensor out of what a model returns."""
    attributes = [name for name, value in getattr(outputs, "__dict__", {}).items() if isinstance(value, Tensor)]
    if hasattr(outputs, "logits") or attributes:
        part = ".logits" if hasattr(outputs, "logits") else f".{attributes[0]}"
    elif isinstance(outputs, dict | tuple | list) and len(outputs):
        part = f"[{next(iter(outputs))!r}]" if isinstance(outputs, dict) else "[0]"
    else:
        return ""
    return f"""; a wrapper takes it out:
    class Wrapped(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model
        def forward(self, x):
            return self.model(x){part}"""


# ---- the loss --------------------------------------------------------------------------------------------------------


def check_loss(state: State, loss: Loss, outputs: Tensor, y: Tensor, labels: Tensor, what: str) -> None:
    """Raises ValueError unless `loss` is a sum over the targets, of outputs and targets of shapes that fit.

    outputs (B, ...), y (B, ...): of a few examples. labels: all targets, or again y. what: the data, for the message.
    """
    what += f", outputs {tuple(outputs.shape)} {outputs.dtype}"
    if loss is cross_entropy_sum:
        check_classes(y, outputs, labels, what)
    with torch.enable_grad():  # so that parameters of its own show
        total = attempt(
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
    trained = {id(p) for p in (*state.parameters, *state.model.parameters())}  # the trial's are copies
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
    twice = attempt(
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
    apart = attempt(lambda: sum(loss(*one).item() for one in ones), f"the loss does not take a batch of one ({what})")
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


# ---- code of the caller's --------------------------------------------------------------------------------------------


def attempt(call: Callable[[], object], what: str) -> object:
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
        words = in_plain_words(error) or f"{type(error).__name__}: {error}"
        raise ValueError(f"{what}: {words}{_place_of(error)}") from error


def _place_of(error: Exception) -> str:
    """The caller's own line that the error came through, the innermost: neither torch's nor this package's."""
    frames = [(Path(frame.filename), frame.lineno) for frame in extract_tb(error.__traceback__)]
    theirs = [place for place in frames if not any(place[0].is_relative_to(folder) for folder in NOT_THEIRS)]
    return f" ({theirs[-1][0].name}, line {theirs[-1][1]})" if theirs else ""
