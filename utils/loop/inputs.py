"""What a run was given besides its config, told apart cheaply: data, loss, model, optimizer. Kept in run.json."""

import hashlib
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.data import Dataset

from utils.data.order import Order, batches, device_of
from utils.loop.own_optimizer import details_of, settings_of
from utils.loop.state import State


def inputs_of(
    state: State, train_data: Dataset, val_data: Dataset | None, loss: Callable, own_optimizer: bool = False
) -> dict[str, str]:
    """{name: value} of each."""
    return {
        "training data": digest_of(train_data),
        "validation data": "none" if val_data is None else digest_of(val_data),
        "loss": name_of(loss),
        "model": str(state.original_model),
        "optimizer": settings_of(state.optimizer),
    } | ({"optimizer's groups": details_of(state.optimizer, state.model)} if own_optimizer else {})


def digest_of(data: Dataset) -> str:
    """A digest of the first, the middle and the last example."""
    digest, order = hashlib.sha256(), Order(len(data), 1, shuffle=False, device=device_of(data))
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


def changes(before: dict[str, str], now: dict[str, str]) -> list[str]:
    """["loss: cross_entropy → mse_loss", …]; of a text of several lines the first that differs."""
    found = []
    for name in before.keys() & now.keys():
        pairs = zip([*before[name].splitlines(), "nothing"], [*now[name].splitlines(), "nothing"], strict=False)
        found += [f"{name}: {old.strip()} → {new.strip()}" for old, new in pairs if old != new][:1]
    return sorted(found)
