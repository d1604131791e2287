"""How weights change: gradients cleared and clipped, the optimizer, the schedule of its rate, the running average."""

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.sgd import sgd

from utils.distributed.parallel import local, whole
from utils.loop.config import Config

EPS = 1e-6  # torch's, beside a norm that is divided by


def clear_gradients(parameters: list[Tensor]) -> None:
    """What optimizer.zero_grad() does, without the record that it makes for the profiler, which costs more than the rest."""
    for parameter in parameters:
        parameter.grad = None


def clip_gradients(parameters: list[Tensor], limit: float, on_host: bool = False) -> Tensor:
    """Scale the gradients in place, all by one factor, so that their common L2 norm is at most `limit` (0: any).

    Returns the norm before that, 0-dim; NaN or infinite if one entry is. The bits are those of torch's clip_grad_norm_, in
    fewer steps: nothing is sorted by device; and `on_host`, where a look at the norm waits for nobody, short gradients are
    left as they are.

    Raises ValueError if no parameter has a gradient.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        raise ValueError("backward has reached no parameter that trains: is something detached on the way to the loss?")
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    if limit:
        shrink = (limit / (norm + EPS)).clamp(max=1.0)
        if not (on_host and whole(shrink) == 1):
            torch._foreach_mul_(gradients, shrink)
    return whole(norm)  # fsdp hands it out in parts


def make_optimizer(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    """AdamW or SGD over the parameters that train, fused; decay on matrices only.

    Raises ValueError if no parameter trains, or one is float16.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ValueError("the model has no parameter with requires_grad=True: there is nothing to train")
    if any(p.dtype == torch.float16 for p in trained):
        raise ValueError(
            "the model has float16 parameters, which AdamW's eps and small updates do not survive: keep them in "
            "float32 and set precision='fp16'"
        )
    groups = [{"params": trained, "weight_decay": 0.0}]
    if config.weight_decay:
        matrices, others = ([p for p in trained if (p.ndim >= 2) == wanted] for wanted in (True, False))
        groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
        groups = [group for group in groups if group["params"]]
    if config.optimizer == "adamw":
        return torch.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2), fused=True)
    kind = SGDOfParts if isinstance(trained[0], DTensor) else torch.optim.SGD
    optimizer = kind(groups, lr=config.lr, momentum=config.momentum, fused=True)
    if config.momentum:
        for p in (
            trained
        ):  # fused SGD leaves its buffers unset if the first step is blocked; from zero they come out the same
            optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    return optimizer


class SGDOfParts(torch.optim.SGD):
    """SGD for parameters that ranks hold in parts: each steps its own, by the fused kernel, which takes no DTensor."""

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            moved = [p for p in group["params"] if p.grad is not None]
            buffers = [self.state[p]["momentum_buffer"] for p in moved] if group["momentum"] else []
            sgd(
                local(moved),
                local(p.grad for p in moved),
                local(buffers) or [None] * len(moved),
                fused=True,
                found_inf=getattr(self, "found_inf", None),
                **{
                    name: group[name]
                    for name in ("lr", "momentum", "weight_decay", "dampening", "nesterov", "maximize")
                },
            )


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


class Schedule(LambdaLR):
    """LambdaLR whose step sets the rates and does no more: less than a third of the Python that torch's own runs."""

    def step(self) -> None:
        self.last_epoch += 1
        self._step_count += 1
        factor = self.lr_lambdas[0](self.last_epoch)  # one function for all groups
        self._last_lr = [base * factor for base in self.base_lrs]
        for group, lr in zip(self.optimizer.param_groups, self._last_lr, strict=True):
            group["lr"] = lr


class Ema:
    """A running average of the weights: average ← decay · average + (1 - decay) · weights, once a step."""

    def __init__(self, model: nn.Module, decay: float, copied: Callable[[nn.Module], nn.Module] = copy.deepcopy):
        self.model = copied(model).eval()
        pairs = zip(self.model.parameters(), model.parameters(), strict=True)
        self.averages = [average for average, weight in pairs if weight.requires_grad]
        self.model.requires_grad_(False)
        self.shares = {average.dtype: average.new_tensor(1 - decay) for average in local(self.averages)}

    def update(self, weights: list[Tensor], unless: Tensor | None = None) -> None:
        """Move towards `weights`, unless `unless` (0-dim, bool) is true."""
        shares = self.shares
        if unless is not None:  # one operation a type, not one a parameter
            shares = {dtype: share.masked_fill(unless, 0) for dtype, share in shares.items()}
        with torch.no_grad():
            torch._foreach_lerp_(local(self.averages), local(weights), [shares[each.dtype] for each in self.averages])

    def copy_buffers(self, model: nn.Module) -> None:
        """Buffers (BatchNorm's statistics) are taken over, not averaged."""
        for mine, theirs in zip(self.model.buffers(), model.buffers(), strict=True):
            mine.copy_(theirs)
