"""An optimizer of the caller's own: what is asked of it, and how it skips a blocked step."""

import io
from collections.abc import Callable
from types import MethodType

import torch
from torch import nn

from utils.loop.config import Config

SETTINGS = ("lr", "weight_decay", "momentum")  # fields of Config that an optimizer's groups may have


def made_by(factory: Callable[[nn.Module], torch.optim.Optimizer], model: nn.Module, config: Config):
    """The optimizer factory(model). Its groups decide about rates and weight decay; the schedule scales each group's rate.

    Raises ValueError unless it is an optimizer over exactly the parameters of `model` that train, and if `config` has a
    setting that no group has.
    """
    optimizer = factory(model)
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(
            f"the optimizer is {optimizer!r}: pass a function of the model that returns a torch.optim.Optimizer:\n"
            "    train(model, data, optimizer=lambda model: torch.optim.RMSprop(model.parameters(), lr=1e-3))"
        )
    moved = {id(p) for group in optimizer.param_groups for p in group["params"]}
    left_out = [name for name, p in model.named_parameters() if p.requires_grad and id(p) not in moved]
    if left_out:
        raise ValueError(
            f"{left_out[0]} of the model is in no group of the optimizer: add it, or freeze it by requires_grad_(False)"
        )
    if foreign := moved - {id(p) for p in model.parameters()}:
        raise ValueError(
            f"{len(foreign)} of the optimizer's {len(moved)} parameters are not the model's: the function must take the "
            "model that it is called with, which may be a copy"
        )
    for name in SETTINGS:
        wanted = getattr(config, name)
        if wanted != getattr(Config, name) and not any(group.get(name) == wanted for group in optimizer.param_groups):
            raise ValueError(f"{name} is {wanted!r} in the config, but in no group of the optimizer: set it there")
    require_plain(optimizer)
    if isinstance(optimizer, torch.optim.SGD) or not getattr(optimizer, "_step_supports_amp_scaling", False):
        optimizer.step = MethodType(_unless_blocked(optimizer.step), optimizer)
    return optimizer


def _unless_blocked(step: Callable[[], None]) -> Callable:
    """A fused optimizer reads `found_inf` on the device and leaves a blocked step out; for others the host reads it."""

    def step_unless_blocked(optimizer: torch.optim.Optimizer) -> None:
        blocked, optimizer.found_inf = getattr(optimizer, "found_inf", None), None  # some refuse to see it
        if blocked is None or not blocked:
            step()

    return step_unless_blocked


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


NOT_SETTINGS = ("capturable", "differentiable", "foreach", "fused")  # how a step is computed, not what


def details_of(optimizer: torch.optim.Optimizer, model: nn.Module) -> str:
    """Of each group the switches that are on, and its parameters in order: a checkpoint's moments are told apart by it."""
    names, lines = {id(p): name for name, p in model.named_parameters()}, []
    for group in optimizer.param_groups:
        on = {n: v for n, v in sorted(group.items()) if (v is True or isinstance(v, str)) and n not in NOT_SETTINGS}
        lines += [f"switches {on}", *(names[id(p)] for p in group["params"])]
    return "\n".join(lines)


def settings_of(optimizer: torch.optim.Optimizer) -> str:
    """Its class, and of each group every setting that is a number; the rate is that before the schedule scales it."""
    groups = [
        {name: value for name, value in group.items() if type(value) in (int, float, tuple)}
        | {"lr": group["initial_lr"]}
        for group in optimizer.param_groups
    ]
    return f"{type(optimizer).__name__.removeprefix('Sharded')} {groups}"
