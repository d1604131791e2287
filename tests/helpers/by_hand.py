"""The loop that a reader would write, on one batch that is the whole data: what `train` is held against."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from utils.data import TensorData


class WholeBatch(TensorData):
    """Whatever is asked for, all of it in one order; but two examples, which `train` tries, are two."""

    def batch(self, indices):
        return super().batch(indices) if len(indices) <= 2 else (self.x, self.y)


def classes(examples: int = 12) -> WholeBatch:
    """(B, 4) and five classes, in float64."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(examples, 4, generator=generator, dtype=torch.float64)
    return WholeBatch(x, torch.randint(5, (examples,), generator=generator))


def train_by_hand(
    model: nn.Module,
    data: TensorData,
    steps: int,
    make: Callable[[nn.Module], torch.optim.Optimizer],
    loss: Callable[[Tensor, Tensor], Tensor] = F.cross_entropy,
    clip: float = 0.0,
    blocked: tuple[int, ...] = (),
) -> torch.optim.Optimizer:
    """Train `model` in place by zero, backward, clip, step. loss: a mean. blocked: steps, from 1, that do not update."""
    optimizer = make(model)
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss(model(data.x), data.y).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        if step not in blocked:
            optimizer.step()
    return optimizer


def distance(one: nn.Module, other: nn.Module) -> float:
    """The largest difference between their parameters and buffers."""
    pairs = zip([*one.parameters(), *one.buffers()], [*other.parameters(), *other.buffers()], strict=True)
    return max(((a - b).abs().max().item() for a, b in pairs), default=0.0)
