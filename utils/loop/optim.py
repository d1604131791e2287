"""How weights change: clearing and clipping of gradients, optimizer, learning rate schedule, running average."""

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from utils.distributed.parallel import sgd_class, to_local
from utils.loop.config import Config

EPS = 1e-6  # added to the norm before the division, as in torch


def zero_grad(parameters: list[Tensor]) -> None:
    """optimizer.zero_grad() without its record for the profiler, which takes longer than the rest."""
    for parameter in parameters:
        parameter.grad = None


def clip_gradients(parameters: list[Tensor], limit: float) -> Tensor:
    """Scale all gradients in place by one factor, so that their global L2 norm is at most `limit` (0: no limit).

    Returns the norm before scaling, 0-dim; it is NaN or infinite if any entry is. The result has the bits of torch's
    clip_grad_norm_, which sorts the gradients by device first and takes twice as long.

    Raises ValueError if no parameter has a gradient.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        raise ValueError("backward has reached no parameter that trains: is something detached on the way to the loss?")
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    if limit:
        torch._foreach_mul_(gradients, (limit / (norm + EPS)).clamp(max=1.0))
    return norm.full_tensor() if isinstance(norm, DTensor) else norm  # FSDP returns it in parts


def make_optimizer(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    """Fused AdamW or SGD over the trainable parameters; weight decay on matrices only.

    Raises ValueError if no parameter is trainable, or if one is float16.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ValueError("the model has no parameter with requires_grad=True: there is nothing to train")
    if any(p.dtype == torch.float16 for p in trained):
        raise ValueError(
            "the model has float16 parameters, which AdamW's eps and small updates do not survive: keep them in "
            "float32 and set precision='fp16'"
        )
    matrices, others = ([p for p in trained if (p.ndim >= 2) == wanted] for wanted in (True, False))
    if not config.weight_decay:
        matrices, others = [], trained
    groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
    groups = [group for group in groups if group["params"]]
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2), fused=True)
    optimizer = sgd_class(trained)(groups, lr=config.lr, momentum=config.momentum, fused=True)
    if config.momentum:
        for p in trained:  # a blocked first step leaves fused SGD's buffers unset; zeros give the same bits
            optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    return optimizer


def lr_factor(config: Config, step: int) -> float:
    """The learning rate of `step` (from 0) as a fraction of the peak: linear warm-up, then as config.schedule says.

    Constant after its end, where torch's CosineAnnealingLR would rise again.
    """
    warmup = config.warmup_steps
    if step < warmup:
        return (step + 1) / warmup
    if config.schedule == "constant":
        return 1.0
    done = min(1.0, (step - warmup) / (config.steps - warmup))
    if config.schedule == "linear":
        return config.final_lr + (1 - config.final_lr) * (1 - done)
    return config.final_lr + (1 - config.final_lr) * (1 + math.cos(math.pi * done)) / 2


class Ema:
    """A running average of the weights: average ← decay · average + (1 - decay) · weights, once per step."""

    def __init__(self, model: nn.Module, decay: float, copied: Callable[[nn.Module], nn.Module] = copy.deepcopy):
        self.model = copied(model).eval()
        pairs = zip(self.model.parameters(), model.parameters(), strict=True)
        self.averages = [average for average, weight in pairs if weight.requires_grad]
        self.model.requires_grad_(False)
        self.shares = {average.dtype: average.new_tensor(1 - decay) for average in to_local(self.averages)}

    def update(self, weights: list[Tensor], unless: Tensor | None = None) -> None:
        """Average in `weights`, except if `unless` (0-dim, bool) is true."""
        shares = self.shares
        if unless is not None:  # one operation for each dtype, not for each parameter
            shares = {dtype: share.masked_fill(unless, 0) for dtype, share in shares.items()}
        with torch.no_grad():
            each = [shares[average.dtype] for average in self.averages]
            torch._foreach_lerp_(to_local(self.averages), to_local(weights), each)

    def copy_buffers(self, model: nn.Module) -> None:
        """Copy the buffers (BatchNorm's statistics), which are not averaged."""
        own = dict(self.model.named_buffers())
        for name, current in model.named_buffers():
            if name in own and own[name].shape == current.shape:  # not a cache that has grown
                own[name].copy_(current)
