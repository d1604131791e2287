"""What a run was given besides its config, told apart cheaply: data, loss, model, optimizer. Kept in run.json."""

import hashlib
import sys
from collections.abc import Callable
from functools import partial
from inspect import getclosurevars
from types import FunctionType

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from utils.data.order import Order, batches, device_of
from utils.data.own_order import OwnOrder
from utils.data.trees import update_digest
from utils.loop.attributes import OF_EACH_MODULE
from utils.loop.code import Code
from utils.loop.metrics import Loss
from utils.loop.reading import Stream
from utils.loop.schedule import name_of_schedule
from utils.loop.state import State

DATA = ("training data", "validation data")
SHUFFLED = "shuffled"
ORDERS = {OwnOrder: "a function", Stream: "a stream's own"}
NOT_SETTINGS = ("capturable", "differentiable", "foreach", "fused")  # how a step is computed, not what


def inputs_of(
    state: State,
    train_data: Dataset,
    val_data: Dataset | None,
    loss: Loss,
    optimizer: Callable[[nn.Module], torch.optim.Optimizer] | None = None,
    order: Order | OwnOrder | Stream | None = None,
) -> dict[str, str]:
    """{name: value} of each. Code is told apart from code of the same version of Python."""
    inputs = {
        "order": ORDERS.get(type(order), SHUFFLED),
        DATA[0]: digest_of(train_data),
        DATA[1]: "none" if val_data is None else digest_of(val_data),
        "loss": name_of(loss),
        "loss's numbers": numbers_of(loss, state.original_model),
        "model": str(state.original_model),
        "optimizer": settings_of(state.optimizer),
        "schedule": name_of_schedule(state.factors, state.config.steps),
    }
    if isinstance(order, OwnOrder):
        inputs |= {f"order of step {step + 1}": digest for step, digest in order.digests.items()}
    if optimizer:
        inputs["optimizer's groups"] = details_of(state.optimizer, state.model)
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    collate = getattr(order if isinstance(order, Stream) else train_data, "collate", None)
    code = {"model": state.original_model, "loss": loss, "collate": collate, "optimizer's function": optimizer}
    code |= {"function of the order": order.function} if isinstance(order, OwnOrder) else {}
    for name, one in code.items():
        theirs = Code(one)
        inputs[f"code of the {name} ({python})"] = _lines(theirs.functions)
        if one is not loss:  # whose numbers are there already
            inputs[f"settings of the {name}"] = _lines(theirs.settings)
    return inputs


def _lines(values: dict[str, object]) -> str:
    return "\n".join(f"{name} {value}" for name, value in sorted(values.items()))


def digest_of(data: Dataset) -> str:
    """A digest of the first, the middle and the last example."""
    digest = hashlib.sha256()
    order = Order(len(data), 1, shuffle=False, device=device_of(data))
    for example in sorted({0, len(data) // 2, len(data) - 1}):
        for part in next(batches(data, order, example, example + 1)):
            update_digest(digest, part)
    return digest.hexdigest()[:16]


def name_of(loss: Callable) -> str:
    """Its name in the source: the function's own, or its class; with the settings of a partial or a module."""
    named = getattr(loss, "func", loss)
    name = getattr(named, "__qualname__", type(named).__qualname__)
    settings = vars(loss) if isinstance(loss, nn.Module) else getattr(loss, "keywords", {})
    shown = {key: value for key, value in settings.items() if type(value) in (int, float, str)}
    return f"{name} {shown}" if shown else name


def numbers_of(loss: Callable, model: nn.Module) -> str:
    """What the loss holds, one a line: numbers, strings, and tensors by a digest, such as the weights of classes.

    Of a module, of its submodules, too; of a partial its arguments; of a function its defaults, and what it finds around
    it. Not what is the model's or torch's.
    """
    seen = {id(part) for part in (*model.modules(), *model.parameters(), *model.buffers())}
    return "\n".join(sorted(_lines_of(loss, "", seen))) or "none"


def _lines_of(value: object, name: str, seen: set[int]) -> list[str]:
    """seen: the ids of what is left out; grows."""
    if type(value) in (bool, int, float, str):
        return [f"{name}: {value!r}"]
    if id(value) in seen:
        return []
    if isinstance(value, Tensor | np.ndarray):
        return [f"{name}: {_digest_of_numbers(torch.as_tensor(value))}"]
    seen.add(id(value))
    parts = _parts_of(value, whole=not name)
    lines = [line for key, part in parts for line in _lines_of(part, f"{name}.{key}".strip("."), seen)]
    if isinstance(value, tuple | list | dict) and lines:
        return [f"{name}: {hashlib.sha256(repr(sorted(lines)).encode()).hexdigest()[:16]}"]
    return lines


def _parts_of(value: object, whole: bool) -> list[tuple[object, object]]:
    """(name, value) of each; whole: whether `value` is the loss itself, and not something that it holds."""
    if isinstance(value, nn.Module):
        own = [(name, part) for name, part in vars(value).items() if name not in OF_EACH_MODULE]
        return [
            *value.named_parameters(recurse=False),
            *value.named_buffers(recurse=False),
            *own,
            *value.named_children(),
        ]
    if isinstance(value, partial):
        return [("", value.func), *enumerate(value.args), *value.keywords.items()]
    if isinstance(value, FunctionType) and not value.__module__.startswith("torch."):
        around = getclosurevars(value)
        defaults = [*enumerate(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).items()]
        return [*defaults, *around.nonlocals.items(), *around.globals.items()]
    if isinstance(value, tuple | list | dict):
        return list(value.items() if isinstance(value, dict) else enumerate(value))
    return list(vars(value).items()) if whole and hasattr(value, "__dict__") else []


def _digest_of_numbers(tensor: Tensor) -> str:
    """Of its type, its shape and its values; of a large one every n-th value."""
    values = tensor.detach().flatten()
    values = values[:: 1 + len(values) // 1_000_000].cpu().contiguous()
    header = f"{tensor.dtype} {tuple(tensor.shape)}".encode()
    return hashlib.sha256(header + values.view(torch.uint8).numpy().tobytes()).hexdigest()[:16]


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
