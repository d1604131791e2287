"""What `train` refuses before its first step: a model, data and a loss that do not fit together."""

import math
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import Dataset

from utils.data.datasets import IGNORE
from utils.data.order import Order, first_examples, require_dataset
from utils.device import own_random_streams
from utils.distributed.parallel import warm_up_buckets
from utils.distributed.ranks import Ranks
from utils.loop.config import Config
from utils.loop.guards import Snapshot, eval_mode, is_out_of_memory
from utils.loop.metrics import count_targets, cross_entropy_sum
from utils.loop.state import State


def check_kinds(model: object, config: object, loss: object) -> None:
    """Raises ValueError unless they are a model whose weights are there, a Config, and a function."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model is {model!r}: pass an nn.Module, which calling its class makes")
    if not is_dataclass(config) or isinstance(config, type):  # not isinstance: a copy of the module has its own class
        raise ValueError(f"config is {config!r}: pass a Config")
    if not callable(loss):
        raise ValueError(f"the loss is {loss!r}: pass a function of (outputs, targets)")
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if isinstance(tensor, nn.parameter.UninitializedTensorMixin) or tensor.is_meta:
            raise ValueError(
                f"{name} of the model has no values yet: call a lazy model once, move one on meta by to_empty"
            )
    for name, parameter in model.named_parameters():
        if parameter.requires_grad and not parameter.isfinite().all():
            raise ValueError(
                f"{name} of the model is not finite to begin with: look at how it was initialised or loaded"
            )
    sparse = [name for name, module in model.named_modules() if getattr(module, "sparse", False) is True]
    if sparse:
        raise ValueError(
            f"{sparse[0]} of the model has sparse gradients, which cannot be clipped or fused: sparse=False"
        )


def check_data(
    state: State, order: Order, train_data: Dataset, val_data: Dataset | None, loss: Callable[[Tensor, Tensor], Tensor]
) -> None:
    """Raises ValueError unless the model, the data and the loss fit together."""
    check_fit(state, train_data, loss, "train_data")
    check_smallest_part(state, train_data, order)
    if val_data is not None:
        check_fit(state, val_data, loss, "val_data")


def warm_up_ddp(state: State, data: Dataset) -> None:
    """One backward before the first step, so that DDP's bucket order is the same after a resume. Leaves no trace."""
    if state.ranks.world == 1:
        return
    before = Snapshot(state.buffers)
    with state.autocast:
        warm_up_buckets(state.forward, first_examples(data, 2)[0].to(state.device))
    state.optimizer.zero_grad()
    before.restore()


def check_fit(state: State, data: Dataset, loss: Callable[[Tensor, Tensor], Tensor], name: str) -> None:
    """Two examples through the model, in eval mode and without a trace: the model, the data and the loss fit together.

    Raises ValueError saying what of `name` does not, with shapes and types.
    """
    require_dataset(data, name)
    if len(data) == 0:
        raise ValueError(f"{name}: the dataset is empty")
    x, y = _pair(_try(lambda: first_examples(data, 2), f"{name} cannot be read"), name)
    what = f"{name}: x {tuple(x.shape)} {x.dtype}, y {tuple(y.shape)} {y.dtype}"
    x, y = x.to(state.device), y.to(state.device)
    with eval_mode(state.model), own_random_streams(), torch.no_grad(), state.autocast:
        outputs = _try(lambda: state.model(x), f"the model does not take the data ({what})")
        if not isinstance(outputs, Tensor):
            raise ValueError(f"the model returns a {type(outputs).__name__} ({what}): it must return one tensor")
        what += f", outputs {tuple(outputs.shape)} {outputs.dtype}"
        if loss is cross_entropy_sum:
            _check_classes(y, outputs, _targets(data, y), what)
        total = _try(lambda: loss(outputs, y), f"the loss does not take the model's outputs and the targets ({what})")
        _check_number(total, what)
        _check_sum(loss, outputs, y, total)
    if name == "val_data" and count_targets(_targets(data, y)) == 0 and (len(data) <= 2 or _targets(data, y) is not y):
        raise ValueError(f"val_data: all targets are {IGNORE}, which count nowhere: there is nothing to validate on")


def check_smallest_part(state: State, data: Dataset, order: Order) -> None:
    """BatchNorm cannot train on one example, and a short last batch may hold no more.

    Raises ValueError if that will come up; tried, without a trace, where there is reason to doubt.
    """
    config = state.config
    normed = any(isinstance(module, _BatchNorm) and module.training for module in state.model.modules())
    if not normed or order.smallest_part(config.steps, config.accumulation) > 1:
        return
    x = first_examples(data, 1)[0].to(state.device)
    before = Snapshot(state.buffers)
    try:
        with own_random_streams(), torch.no_grad(), state.autocast:
            _try(
                lambda: state.model(x),
                "a micro-batch of one example would come up, which BatchNorm cannot train on: set drop_last, or another "
                f"batch_size than {config.batch_size} or accumulation than {config.accumulation}",
            )
    finally:
        before.restore()


def _try(call: Callable[[], object], what: str) -> object:
    """What user code returns; what it raises as a ValueError, but for memory that runs out."""
    try:
        return call()
    except Exception as error:
        if is_out_of_memory(error):
            raise
        raise ValueError(f"{what}: {type(error).__name__}: {error}") from error


def _targets(data: Dataset, first: Tensor) -> Tensor:
    """All targets of a dataset that holds them as a tensor; the first of any other."""
    return data.y if isinstance(getattr(data, "y", None), Tensor) else first


def check_ranks(ranks: Ranks, config: Config, order: Order, val_data: Dataset | None, run: str | Path | None) -> None:
    """All ranks were asked for the same run, and each has work in every batch of it.

    Raises ValueError, on every rank, if not.
    """
    if ranks.world == 1:
        return
    asked = {
        "training examples": order.examples,
        "validation examples": None if val_data is None else len(val_data),
        "run folder": run,
    }
    ranks.require_same("the run", asdict(config) | asked)
    if order.smallest_batch < ranks.world * config.accumulation:
        raise ValueError(
            f"batch_size is {config.batch_size}, and an epoch's smallest batch has {order.smallest_batch} examples: too "
            f"few for {ranks.world} ranks with accumulation={config.accumulation}. Start fewer ranks, raise batch_size, or "
            "leave out a short last batch by drop_last=True"
        )


def _pair(batch: object, name: str) -> tuple[Tensor, Tensor]:
    if isinstance(batch, tuple | list) and len(batch) == 2 and all(isinstance(part, Tensor) for part in batch):
        return batch[0], batch[1]
    shown = f"a dict with {', '.join(map(str, batch))}" if isinstance(batch, dict) else f"a {type(batch).__name__}"
    if isinstance(batch, tuple | list):
        shown += f" of {', '.join(type(part).__name__ for part in batch)}"
    raise ValueError(f"{name}: an example must be a pair (x, y) of tensors or numbers; two of them came as {shown}")


def _check_number(total: object, what: str) -> None:
    shown = (
        f"of shape {tuple(total.shape)} and {total.dtype}" if isinstance(total, Tensor) else f"a {type(total).__name__}"
    )
    if not isinstance(total, Tensor) or total.dim() != 0 or not total.is_floating_point():
        raise ValueError(
            f"the loss is {shown} ({what}): it must be one real number, a 0-dim tensor summed over the targets"
        )


def _check_sum(loss: Callable, outputs: Tensor, y: Tensor, total: Tensor) -> None:
    if len(y) < 2:
        return
    halves = ((outputs[:1], y[:1]), (outputs[1:], y[1:]))
    apart = [_try(lambda half=half: loss(*half).item(), "the loss does not take a batch of one") for half in halves]
    tells = math.isfinite(sum(apart)) and not math.isclose(sum(apart), 0, abs_tol=1e-6)
    if tells and math.isclose(total.item(), sum(apart) / 2, rel_tol=1e-3):
        raise ValueError(
            f"the loss is a mean ({total.item():.4g} for two examples that cost {apart[0]:.4g} and {apart[1]:.4g}): return "
            'the sum over the targets, reduction="sum"; train divides by how many there are'
        )


def _check_classes(y: Tensor, outputs: Tensor, labels: Tensor, what: str) -> None:
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
