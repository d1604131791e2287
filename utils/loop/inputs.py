"""What a run was given besides its config, told apart cheaply: data, loss, model, optimizer. Kept in run.json."""

import hashlib
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.data import Dataset

from utils.data.order import Order, batches, device_of
from utils.data.own_order import OwnOrder
from utils.loop.metrics import Loss
from utils.loop.reading import Stream
from utils.loop.state import State

SHUFFLED = "shuffled"
ORDERS = {OwnOrder: "a function", Stream: "a stream's own"}
NOT_SETTINGS = ("capturable", "differentiable", "foreach", "fused")  # how a step is computed, not what


def inputs_of(
    state: State,
    train_data: Dataset,
    val_data: Dataset | None,
    loss: Loss,
    own_optimizer: bool = False,
    order: Order | OwnOrder | Stream | None = None,
) -> dict[str, str]:
    """{name: value} of each."""
    inputs = {
        "order": ORDERS.get(type(order), SHUFFLED),
        "training data": digest_of(train_data),
        "validation data": "none" if val_data is None else digest_of(val_data),
        "loss": name_of(loss),
        "model": str(state.original_model),
        "optimizer": settings_of(state.optimizer),
    }
    if isinstance(order, OwnOrder):
        inputs |= {f"order of step {step + 1}": digest for step, digest in order.digests.items()}
    if own_optimizer:
        inputs["optimizer's groups"] = details_of(state.optimizer, state.model)
    return inputs


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
