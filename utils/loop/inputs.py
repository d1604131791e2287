"""What a run was given besides its config, told apart cheaply: data, loss, model, optimizer. Kept in run.json."""

import hashlib
import sys
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.data import Dataset

from utils.data.order import Order, batches, device_of
from utils.loop.code import Code
from utils.loop.metrics import Loss
from utils.loop.state import State

DATA = ("training data", "validation data")
NOT_SETTINGS = ("capturable", "differentiable", "foreach", "fused")  # how a step is computed, not what


def inputs_of(
    state: State,
    train_data: Dataset,
    val_data: Dataset | None,
    loss: Loss,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
) -> dict[str, str]:
    """{name: value} of each. Code is told apart from code of the same version of Python."""
    inputs = {
        DATA[0]: digest_of(train_data),
        DATA[1]: "none" if val_data is None else digest_of(val_data),
        "loss": name_of(loss),
        "model": str(state.original_model),
        "optimizer": settings_of(state.optimizer),
    }
    if optimizer:
        inputs["optimizer's groups"] = details_of(state.optimizer, state.model)
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    collate = getattr(train_data, "collate", None)
    code = {"model": state.original_model, "loss": loss, "collate": collate, "optimizer's function": optimizer}
    for name, one in code.items():
        theirs = Code(one)
        inputs[f"code of the {name} ({python})"] = _lines(theirs.functions)
        inputs[f"settings of the {name}"] = _lines(theirs.settings)
    return inputs


def _lines(values: dict[str, object]) -> str:
    return "\n".join(f"{name} {value}" for name, value in sorted(values.items()))


def digest_of(data: Dataset) -> str:
    """A digest of the first, the middle and the last example."""
    digest = hashlib.sha256()
    order = Order(len(data), 1, shuffle=False, device=device_of(data))
    for example in sorted({0, len(data) // 2, len(data) - 1}):
        for tensor in next(batches(data, order, example, example + 1)):
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def name_of(loss: Callable) -> str:
    """Its name in the source: the function's own, or its class; with the settings of a partial or a module."""
    named = getattr(loss, "func", loss)
    name = getattr(named, "__qualname__", type(named).__qualname__)
    settings = vars(loss) if isinstance(loss, nn.Module) else getattr(loss, "keywords", {})
    shown = {key: value for key, value in settings.items() if type(value) in (int, float, str)}
    return f"{name} {shown}" if shown else name


def details_of(optimizer: torch.optim.Optimizer, model: nn.Module) -> str:
    """Of each group the switches that are on, and its parameters in order: a checkpoint's moments are told apart by it."""
    names = {id(p): name for name, p in model.named_parameters()}
    lines = []
    for group in optimizer.param_groups:
        switches = {
            name: value
            for name, value in sorted(group.items())
            if (value is True or isinstance(value, str)) and name not in NOT_SETTINGS
        }
        lines += [f"switches {switches}", *(names[id(p)] for p in group["params"])]
    return "\n".join(lines)


def settings_of(optimizer: torch.optim.Optimizer) -> str:
    """Its class, and of each group every setting that is a number; the rate is that before the schedule scales it."""
    groups = [
        {name: value for name, value in group.items() if type(value) in (int, float, tuple)}
        | {"lr": float(group["initial_lr"])}
        for group in optimizer.param_groups
    ]
    return f"{type(optimizer).__name__.removeprefix('Sharded')} {groups}"


def changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """["loss: cross_entropy → mse_loss", …]; of a text of several lines the first that differs."""
    differences = []
    for name in before.keys() & now.keys():
        pairs = zip([*before[name].splitlines(), "nothing"], [*now[name].splitlines(), "nothing"], strict=False)
        differences += [f"{name}: {old.strip()} → {new.strip()}" for old, new in pairs if old != new][:1]
    return sorted(differences)
