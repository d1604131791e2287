"""Sound and odd data, models and losses, by name, to be put together at random (fuzz.py).

Of each kind, those that must work and those that must be refused are told apart here, by hand and not by what utils says.
"""

import math
import random
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from utils.data import IGNORE, TensorData
from utils.loop.metrics import cross_entropy_sum, squared_error_sum

CLASSES, WIDTH, TOKENS = 3, 2, 5


# --- data ---------------------------------------------------------------------------------------------------


class Rows(Dataset):
    """Pairs (x, y) read one by one, as a user's own dataset does, each visit jittered; at `at`, `fault` happens."""

    def __init__(self, x: Tensor, y: Tensor, fault: str, at: int):
        self.x_rows, self.y_rows, self.fault, self.at = x, y, fault, at

    def __len__(self) -> int:
        return LENGTHS.get(self.fault, len)(self.x_rows)

    def __getitem__(self, i: int):
        x, y = self.x_rows[i], self.y_rows[i]
        if x.is_floating_point():
            x = x + 0.01 * (random.random() + float(np.random.rand()) + torch.rand(()).item())  # noqa: NPY002
        x = x.to(self.x_rows.dtype)
        return FAULTS[self.fault](x, y) if i == self.at and self.fault in FAULTS else (x, y)


def _filled(x: Tensor, value: float) -> Tensor:
    return torch.full_like(x, value) if x.is_floating_point() else x


def _fail(x: Tensor, y: Tensor):
    raise KeyError("no such file")


FAULTS: dict[str, Callable] = {  # of one example
    "ragged": lambda x, y: (torch.cat([x, x]), y),
    "raises": _fail,
    "None": lambda x, y: None,
    "alone": lambda x, y: x,
    "three": lambda x, y: (x, y, y),
    "wider type": lambda x, y: (x.to(torch.complex128), y),
    "label too large": lambda x, y: (x, torch.full_like(y, CLASSES + TOKENS)),
    "label below 0": lambda x, y: (x, torch.full_like(y, -1)),
    "NaN": lambda x, y: (_filled(x, math.nan), y),
    "inf": lambda x, y: (_filled(x, math.inf), y),
    "1e30": lambda x, y: (_filled(x, 1e30), y),
    "ignored": lambda x, y: (x, torch.full_like(y, IGNORE)),
}
LENGTHS: dict[str, Callable] = {  # of a dataset that lies
    "longer": lambda rows: len(rows) + 3,
    "shorter": lambda rows: max(1, len(rows) - 1),
    "half": lambda rows: len(rows) / 2,
    "negative": lambda rows: -1,
    "endless": lambda rows: 2**62,
}
NOT_FINITE = ("NaN", "inf", "1e30")  # the numbers may run away: the policy decides
HARMLESS = ("", "ignored", "shorter", "y is a list", "y is None")


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(torch.zeros(WIDTH), torch.zeros((), dtype=torch.int64))] * 4)


class Pure(TensorData):
    """It promises to fetch batches, and cannot."""

    batch = property()


def rows_of(n: int, kind: str) -> tuple[Tensor, Tensor]:
    """n examples that a model of this kind takes, and their classes."""
    generator = torch.Generator().manual_seed(n)
    shape = {"tokens": (n, 4), "sequences": (n, 4, WIDTH)}.get(kind, (n, WIDTH))
    y = torch.randint(CLASSES, shape[:-1] if kind == "sequences" else shape[:1], generator=generator)
    if kind == "tokens":
        return torch.randint(TOKENS, shape, generator=generator), y
    dtype = getattr(torch, kind, torch.float32)
    return torch.randn(shape, generator=generator).mul(3).to(dtype), y


STRANGE = {  # what is no dataset, or none of pairs; all to be refused
    "None": lambda x, y: None,
    "a number": lambda x, y: 7,
    "a name": lambda x, y: "spiral",
    "an array": lambda x, y: np.zeros((4, WIDTH)),
    "a stream": lambda x, y: Stream(),
    "a generator": lambda x, y: (pair for pair in zip(x, y, strict=True)),
    "a loader": lambda x, y: DataLoader(Rows(x, y, "", 0)) if len(x) else None,
    "a class": lambda x, y: Rows,
    "dicts": lambda x, y: [{"x": a, "y": b} for a, b in zip(x, y, strict=True)],
    "words": lambda x, y: ["spam", "eggs", "ham"],
    "by name": lambda x, y: {"a": (x, y)},
    "x longer than y": lambda x, y: TensorData(torch.cat([x, x[:1] if len(x) else x.new_zeros(1, *x.shape[1:])]), y),
    "labels as floats": lambda x, y: TensorData(x, y.float()),
    "labels below 0": lambda x, y: TensorData(x, torch.full_like(y, -7)),
    "labels too large": lambda x, y: TensorData(x, y + CLASSES),
    "labels of int32": lambda x, y: Rows(x, y.int(), "", 0),
    "no labels in a row": lambda x, y: TensorData(x, torch.zeros(len(x), 0, dtype=torch.int64)),
    "x of complex numbers": lambda x, y: TensorData(x.to(torch.complex64), y),
    "x without an axis": lambda x, y: TensorData(torch.zeros(max(1, len(x))), torch.zeros(max(1, len(x)), dtype=int)),
    "x too wide": lambda x, y: TensorData(
        torch.zeros(max(1, len(x)), WIDTH + 1), torch.zeros(max(1, len(x)), dtype=int)
    ),
    "batches that it cannot fetch": lambda x, y: Pure(x, y),
}


def data_of(case: dict, kind: str) -> object:
    """The dataset that a case names. ValueError if TensorData refuses it."""
    x, y = rows_of(case["n"], kind)
    if case["kind"] in STRANGE:
        return STRANGE[case["kind"]](x, y)
    if case["kind"] == "regression":
        return TensorData(x, torch.randn(len(x), CLASSES, generator=torch.Generator().manual_seed(0)).to(x.dtype), True)
    if case["kind"] == "a list":
        return list(zip(x, y, strict=True))
    if case["kind"] == "rows":
        rows = Rows(x, y, case["fault"], case["at"])
        if case["fault"] == "y is a list":
            rows.y = y.tolist()
        if case["fault"] == "y is None":
            rows.y = None
        return rows
    if case["at"] < len(x) and case["fault"] in (*NOT_FINITE, "label too large", "ignored"):
        x[case["at"]], y[case["at"]] = FAULTS[case["fault"]](x[case["at"]], y[case["at"]])
    return TensorData(x, y)


# --- models -------------------------------------------------------------------------------------------------


class Returns(nn.Module):
    """A linear layer whose output is handed on through any function."""

    def __init__(self, last: Callable[[Tensor], object]):
        super().__init__()
        self.layer, self.last = nn.Linear(WIDTH, CLASSES), last

    def forward(self, x):
        return self.last(self.layer(x))


def _tied() -> nn.Module:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, CLASSES))
    model[2].weight = model[0].weight
    return model


def _half_frozen() -> nn.Module:
    model = nn.Sequential(nn.Linear(WIDTH, 4), nn.BatchNorm1d(4), nn.Linear(4, CLASSES))
    model[0].requires_grad_(False)
    model[1].eval()
    return model


def _unused() -> nn.Module:
    model = nn.Linear(WIDTH, CLASSES)
    model.unused = nn.Parameter(torch.ones(3))
    model.scale = nn.Parameter(torch.tensor(1.0))
    model.register_buffer("mask", torch.full((2,), float("-inf")))
    return model


def _text(sparse: bool = False) -> nn.Module:
    return nn.Sequential(nn.Embedding(TOKENS, 4, sparse=sparse), nn.Flatten(), nn.Linear(16, CLASSES))


def _not_finite() -> nn.Module:
    model = nn.Linear(WIDTH, CLASSES)
    nn.init.constant_(model.weight, float("nan"))
    return model


def _uncopyable() -> nn.Module:
    model = nn.Linear(WIDTH, CLASSES)
    model.stream = (i for i in range(3))
    return model


SOUND_MODELS: dict[str, tuple[str, Callable[[], nn.Module]]] = {  # name: (kind of data that it takes, how it is built)
    "linear": ("float32", lambda: nn.Linear(WIDTH, CLASSES)),
    "dropout": ("float32", lambda: nn.Sequential(nn.Linear(WIDTH, 4), nn.Dropout(0.5), nn.Linear(4, CLASSES))),
    "dropped out": ("float32", lambda: nn.Sequential(nn.Linear(WIDTH, 4), nn.Dropout(1.0), nn.Linear(4, CLASSES))),
    "batchnorm": ("float32", lambda: nn.Sequential(nn.Linear(WIDTH, 4), nn.BatchNorm1d(4), nn.Linear(4, CLASSES))),
    "tied": ("float32", _tied),
    "half frozen": ("float32", _half_frozen),
    "unused": ("float32", _unused),
    "sequences": ("sequences", lambda: nn.Linear(WIDTH, CLASSES)),
    "tokens": ("tokens", _text),
    "float64": ("float64", lambda: nn.Linear(WIDTH, CLASSES).double()),
}
ODD_MODELS: dict[str, tuple[str, Callable[[], object]]] = {  # all to be refused
    "bfloat16": ("bfloat16", lambda: nn.Linear(WIDTH, CLASSES).bfloat16()),
    "no parameters": ("float32", nn.Identity),
    "frozen": ("float32", lambda: nn.Linear(WIDTH, CLASSES).requires_grad_(False)),
    "float16": ("float16", lambda: nn.Linear(WIDTH, CLASSES).half()),
    "complex": ("complex64", lambda: nn.Linear(WIDTH, CLASSES, dtype=torch.complex64)),
    "lazy": ("float32", lambda: nn.LazyLinear(CLASSES)),
    "on meta": ("float32", lambda: nn.Linear(WIDTH, CLASSES, device="meta")),
    "sparse": ("tokens", lambda: _text(sparse=True)),
    "other type": ("float64", lambda: nn.Linear(WIDTH, CLASSES)),
    "too narrow": ("float32", lambda: nn.Linear(WIDTH + 1, CLASSES)),
    "no classes": ("float32", lambda: nn.Linear(WIDTH, 1).requires_grad_() and Returns(lambda out: out[:, :0])),
    "one output": ("float32", lambda: Returns(lambda out: out.sum(-1))),
    "pair": ("float32", lambda: Returns(lambda out: (out, out))),
    "None": ("float32", lambda: Returns(lambda out: None)),
    "dict": ("float32", lambda: Returns(lambda out: {"logits": out})),
    "array": ("float32", lambda: Returns(lambda out: out.detach().numpy())),
    "detached": ("float32", lambda: Returns(lambda out: out.detach())),
    "a function": ("float32", lambda: torch.relu),
    "a class": ("float32", lambda: nn.Linear),
    "nothing": ("float32", lambda: None),
    "NaN": ("float32", _not_finite),
}
SHY_MODELS = {"uncopyable": ("float32", _uncopyable)}  # sound without an average, to be refused with one
MODELS = SOUND_MODELS | ODD_MODELS | SHY_MODELS


# --- losses -------------------------------------------------------------------------------------------------


def _raising(outputs: Tensor, targets: Tensor) -> Tensor:
    raise ArithmeticError("no loss today")


SOUND_LOSSES = {
    "cross-entropy": cross_entropy_sum,
    "by hand": lambda outputs, targets: cross_entropy_sum(outputs, targets) + 0.01 * outputs.square().sum(),
}
ODD_LOSSES = {  # all to be refused
    "mean": nn.functional.cross_entropy,
    "per target": lambda outputs, targets: nn.functional.cross_entropy(outputs, targets, reduction="none"),
    "of one axis": lambda outputs, targets: cross_entropy_sum(outputs, targets).unsqueeze(0),
    "a float": lambda outputs, targets: cross_entropy_sum(outputs, targets).item(),
    "None": lambda outputs, targets: None,
    "a pair": lambda outputs, targets: (cross_entropy_sum(outputs, targets), outputs),
    "detached": lambda outputs, targets: cross_entropy_sum(outputs.detach(), targets),
    "whole": lambda outputs, targets: outputs.argmax(-1).eq(targets).sum(),
    "complex": lambda outputs, targets: cross_entropy_sum(outputs, targets) * 1j,
    "raises": _raising,
    "uncallable": None,
}
NOT_FINITE_LOSSES = {
    "NaN": lambda outputs, targets: cross_entropy_sum(outputs, targets) * float("nan"),
    "inf": lambda outputs, targets: cross_entropy_sum(outputs, targets) + float("inf"),
    "runs away": lambda outputs, targets: -(outputs * 1e18).square().sum(),
}
LOSSES = SOUND_LOSSES | ODD_LOSSES | NOT_FINITE_LOSSES | {"squared error": squared_error_sum}
