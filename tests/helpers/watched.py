"""A model that tells which examples it has trained on: in which order, and how often."""

import torch
from torch import nn


class Notebook:
    """Not in a checkpoint, which takes lists and the attributes of objects: this one has no __dict__."""

    __slots__ = ("batches",)

    def __init__(self):
        self.batches = []


class Watcher(nn.Sequential):
    """Two classes of x, (B, 1), where example i of `examples` has x = i / examples; keeps each batch's i in `batches`."""

    examples: int

    def __init__(self):
        torch.manual_seed(0)
        super().__init__(nn.Linear(1, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 2))
        self.notebook = Notebook()

    @property
    def batches(self) -> list[list[int]]:
        return self.notebook.batches

    def forward(self, x):
        if self.training and torch.is_grad_enabled():
            self.batches.append((x[:, 0] * self.examples).round().long().tolist())
        return super().forward(x)
