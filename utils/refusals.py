"""What `train` refuses before its first step: a model, data and a loss that do not fit together."""

import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Dataset

from utils.batches import Order, first_examples, require_dataset
from utils.config import Config
from utils.device import own_random_streams
from utils.guards import evaluating, is_out_of_memory
from utils.metrics import cross_entropy_sum
from utils.ranks import Ranks
from utils.state import State


def check_fit(state: State, data: Dataset, loss: Callable[[Tensor, Tensor], Tensor], name: str) -> None:
    """Two examples through the model, in eval mode and without a trace: the model, the data and the loss fit together.

    Raises ValueError saying what of `name` does not, with shapes and types.
    """
    require_dataset(data, name)
    if len(data) == 0:
        raise ValueError(f"{name}: the dataset is empty")
    x, y = _pair(first_examples(data, 2), name)
    what = f"{name}: x {tuple(x.shape)} {x.dtype}, y {tuple(y.shape)} {y.dtype}"
    with evaluating(state.model), own_random_streams(), torch.no_grad(), state.autocast:
        try:
            outputs = state.model(x.to(state.device))
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            if is_out_of_memory(error):
                raise
            raise ValueError(f"the model does not take the data ({what}): {error}") from error
        what += f", outputs {tuple(outputs.shape)} {outputs.dtype}"
        if loss is cross_entropy_sum:
            _check_classes(y, outputs, getattr(data, "y", y), what)
        try:
            total = loss(outputs, y.to(state.device))
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            raise ValueError(f"the loss does not take the model's outputs and the targets ({what}): {error}") from error
        _check_sum(loss, outputs, y.to(state.device), total)
    if total.numel() != 1:
        raise ValueError(
            f"the loss is of shape {tuple(total.shape)} ({what}): it must sum over the targets to one number"
        )


def check_ranks(ranks: Ranks, config: Config, order: Order, val_data: Dataset | None, run: str | Path | None) -> None:
    """All ranks were asked for the same run, and each has work in every batch of it.

    Raises ValueError, on every rank, if not.
    """
    if ranks.world == 1:
        return
    asked = {"training examples": order.examples, "validation": val_data is not None, "run folder": run}
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


def _check_sum(loss: Callable, outputs: Tensor, y: Tensor, total: Tensor) -> None:
    if len(y) < 2 or total.numel() != 1:
        return
    apart = [loss(outputs[:1], y[:1]).item(), loss(outputs[1:], y[1:]).item()]
    if math.isclose(total.item(), sum(apart) / 2, rel_tol=1e-3) and not math.isclose(sum(apart), 0, abs_tol=1e-6):
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
    classes, largest = outputs.shape[-1], int(labels.max())
    if largest >= classes:
        raise ValueError(
            f"label {largest} is out of range for {classes} classes ({what}): widen the model or fix the labels"
        )
