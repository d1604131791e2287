"""How weights change: the optimizer, by config or of the caller's own, and the learning rate schedule."""

import io
import math
from collections.abc import Callable
from types import MethodType

import torch
from torch import nn

from utils.distributed.parallel import sgd_class
from utils.loop.config import Config


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
    if config.weight_decay:
        matrices = [p for p in trained if p.ndim >= 2]
        others = [p for p in trained if p.ndim < 2]
        groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
        groups = [group for group in groups if group["params"]]
    else:
        groups = [{"params": trained, "weight_decay": 0.0}]
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


# ---- an optimizer of the caller's own --------------------------------------------------------------------------------

SETTINGS = ("lr", "weight_decay", "momentum")  # fields of Config that an optimizer's groups may have


def optimizer_from(
    factory: Callable[[nn.Module], torch.optim.Optimizer], model: nn.Module, config: Config
) -> torch.optim.Optimizer:
    """The optimizer factory(model), whose step is left out while its `found_inf` is set, as the Guard does.

    Its groups decide about rates and weight decay; the schedule scales each group's rate.

    Raises ValueError unless it is an optimizer over exactly the parameters of `model` that train, and if `config` has a
    setting that no group has.
    """
    optimizer = factory(model)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(
            f"the optimizer is {optimizer!r}: pass a function of the model that returns a torch.optim.Optimizer:\n"
            "    train(model, data, optimizer=lambda model: torch.optim.RMSprop(model.parameters(), lr=1e-3))"
        )
    in_groups = {id(p) for group in optimizer.param_groups for p in group["params"]}
    left_out = [name for name, p in model.named_parameters() if p.requires_grad and id(p) not in in_groups]
    if left_out:
        raise ValueError(
            f"{left_out[0]} of the model is in no group of the optimizer: add it, or freeze it by requires_grad_(False)"
        )
    foreign = in_groups - {id(p) for p in model.parameters()}
    if foreign:
        raise ValueError(
            f"{len(foreign)} of the optimizer's {len(in_groups)} parameters are not the model's: the function must take the "
            "model that it is called with, which may be a copy"
        )
    for name in SETTINGS:
        wanted = getattr(config, name)
        if wanted != getattr(Config, name) and not any(group.get(name) == wanted for group in optimizer.param_groups):
            raise ValueError(f"{name} is {wanted!r} in the config, but in no group of the optimizer: set it there")
    require_plain(optimizer)
    # A fused optimizer reads found_inf on the device and leaves a blocked step out; for others the host reads it.
    if isinstance(optimizer, torch.optim.SGD) or not getattr(optimizer, "_step_supports_amp_scaling", False):
        step = optimizer.step

        def step_unless_blocked(optimizer: torch.optim.Optimizer) -> None:
            blocked = getattr(optimizer, "found_inf", None)
            optimizer.found_inf = None  # some refuse to see it
            if blocked is None or not blocked:
                step()

        optimizer.step = MethodType(step_unless_blocked, optimizer)
    return optimizer


def require_plain(optimizer: torch.optim.Optimizer) -> None:
    """Raises ValueError for a setting that a checkpoint could not give back: it loads without running code."""
    for group in optimizer.state_dict()["param_groups"]:
        for name, value in group.items():
            file = io.BytesIO()
            try:
                torch.save(value, file)
                file.seek(0)
                torch.load(file, weights_only=True)
            except Exception as error:  # pickle and its readers raise many kinds
                raise ValueError(
                    f"{name} of the optimizer is {value!r}, a {type(value).__name__}, which no checkpoint can hold: pass a "
                    "plain number or string, float(lr) in place of one of NumPy's, say"
                ) from error
