"""How weights change: the optimizer, the schedule of its learning rate, the running average."""

import copy
import math

import torch
from torch import Tensor, nn

from utils.config import Config


def make_optimizer(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    """AdamW or SGD over the parameters that train, fused; decay on matrices only.

    Raises ValueError if no parameter trains.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ValueError("the model has no parameter with requires_grad=True: there is nothing to train")
    groups = [
        {"params": [p for p in trained if p.ndim >= 2], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.ndim < 2], "weight_decay": 0.0},
    ]
    groups = [group for group in groups if group["params"]]
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2), fused=True)
    optimizer = torch.optim.SGD(groups, lr=config.lr, momentum=config.momentum, fused=True)
    if config.momentum:
        for p in (
            trained
        ):  # fused SGD leaves its buffers unset if the first step is blocked; from zero they come out the same
            optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    return optimizer


def lr_factor(config: Config, step: int) -> float:
    """The learning rate of `step` (from 0) as a fraction of the peak: linear warm-up, then constant or cosine.

    Clamped at its end, where torch's CosineAnnealingLR would climb again.
    """
    if step < config.warmup:
        return (step + 1) / config.warmup
    if config.schedule == "constant":
        return 1.0
    done = min(1.0, (step - config.warmup) / (config.steps - config.warmup))
    return config.final_lr + (1 - config.final_lr) * (1 + math.cos(math.pi * done)) / 2


class Ema:
    """A running average of the weights: average ← decay · average + (1 - decay) · weights, once a step."""

    def __init__(self, model: nn.Module, decay: float):
        self.model = copy.deepcopy(model).eval()
        self.decay = decay
        self.averages = [a for a, p in zip(self.model.parameters(), model.parameters(), strict=True) if p.requires_grad]
        self.model.requires_grad_(False)

    def update(self, parameters: list[Tensor], blocked: Tensor) -> None:
        share = (1 - blocked) * (1 - self.decay)  # 0 for a step that was blocked
        of_type = {p.dtype: share.to(p.dtype) for p in parameters}
        with torch.no_grad():
            torch._foreach_lerp_(self.averages, parameters, [of_type[p.dtype] for p in parameters])

    def copy_buffers(self, model: nn.Module) -> None:
        """Buffers (BatchNorm's statistics) are taken over, not averaged."""
        for mine, theirs in zip(self.model.buffers(), model.buffers(), strict=True):
            mine.copy_(theirs)
