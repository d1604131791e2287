"""What `train` refuses before its first step: a model, data and a loss that do not fit together."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.data import Dataset

from utils.batches import first_examples
from utils.device import own_random_streams
from utils.guards import evaluating, is_out_of_memory
from utils.metrics import cross_entropy_sum
from utils.state import State


def check_fit(state: State, data: Dataset, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
    """One example through the model, in eval mode and without a trace: the model, the data and the loss fit together.

    Raises ValueError saying what does not, with shapes and types.
    """
    x, y = first_examples(data, 1)
    what = f"x {tuple(x.shape)} {x.dtype}, y {tuple(y.shape)} {y.dtype}"
    with evaluating(state.model), own_random_streams(), torch.no_grad(), state.autocast():
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
    if total.numel() != 1:
        raise ValueError(
            f"the loss is of shape {tuple(total.shape)} ({what}): it must sum over the targets to one number"
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
