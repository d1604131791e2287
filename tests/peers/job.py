"""What every loop is given to do: the same model, data, order of batches, optimizer and loss."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from utils.data.order import Order, batches

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


@dataclass
class Trial(Job):
    """A job in a folder: saved there every `save_every` steps, and gone on with from the newest that is there.

    A step takes `accumulation` micro-batches of `batch_size` examples each, fetched by `workers` processes, shuffled.
    """

    folder: Path
    save_every: int
    workers: int = 0
    accumulation: int = 1
    sgd: bool = False  # at rate 1: what a step changes is its gradient

    def optimizer(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=1.0) if self.sgd else super().optimizer()

    @property
    def micro_batches(self) -> int:
        return self.steps * self.accumulation
