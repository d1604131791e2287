"""What every loop is given to do: the same model, data, order of batches, optimizer and loss."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from utils.batches import Order, batches

CLIP, DECAY, LR = 0.25, 0.99, 1e-3


@dataclass
class Job:
    """Train `model` in place for `steps` steps. loss: (outputs, targets) → the mean per target; loss.sum → the sum."""

    model: nn.Module
    data: Dataset
    batch_size: int
    steps: int
    loss: Callable[[Tensor, Tensor], Tensor]

    def optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.model.parameters(), lr=LR, weight_decay=0.0, fused=True)

    def batches(self) -> Iterable[tuple[Tensor, Tensor]]:
        return batches(self.data, Order(len(self.data), self.batch_size), 0, self.steps)


class Loop(NamedTuple):
    """How to do a job, with which maths besides forward, backward and AdamW, and with what else on."""

    run: Callable[[Job], None]
    maths: tuple[str, ...] = ()  # of clip, ema, schedule
    has: str = ""
