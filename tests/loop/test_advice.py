"""Advice that the loop prints is run: the call that fails is changed as the message says, and trains as by hand.

The last test finds messages with code in them that no test here has read.
"""

import ast
import copy
import importlib
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import make_dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers import advice
from helpers.advice import expressions, followed, programs, read, refusal
from helpers.by_hand import distance, train_by_hand
from helpers.paths import ROOT
from torch import nn
from torch.utils.data import IterableDataset, TensorDataset

from utils.data import IGNORE, TensorData, workers
from utils.data.datasets import Windows
from utils.distributed import launch
from utils.distributed.launch import on_ranks
from utils.distributed.ranks import SINGLE_PROCESS, Ranks, current_ranks
from utils.loop import Config, evaluate, guards, state, train
from utils.loop.metrics import cross_entropy_sum
from utils.loop.run_folder import best_weights
from utils.loop.state import State
from utils.loop.training import halve_micro_batches

pytestmark = pytest.mark.xdist_group("advice")  # the last test looks at what the others have read

RUN: set[str] = set()  # the tests that this process has begun


@pytest.fixture(autouse=True)
def _note(request):
    RUN.add(request.node.originalname)


N, STEPS, LR = 12, 4, 0.1
X = torch.randn(N, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(N) % 3
REAL = torch.randn(N, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
TOKENS = torch.randint(1, 7, (N, 10), generator=torch.Generator().manual_seed(1))
TOKENS[torch.arange(10) > 2 + torch.arange(N)[:, None] % 7] = 0  # padding, in every example
WEIGHTS = torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)
CONFIG = Config(steps=STEPS, batch_size=N, optimizer="sgd", momentum=0.0, lr=LR, log_every=1, device="cpu")
OWN = Config(steps=STEPS, batch_size=N, log_every=1, device="cpu")  # with an optimizer of one's own


def linear(outputs: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, outputs).double()


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()


def reader() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7)).double()


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=LR)


def call_of(model: nn.Module, x=X, y=LABELS, **options) -> dict:
    """Arguments of train, for one batch that is all of the data."""
    return {"model": model, "train_data": TensorDataset(x, y), "config": CONFIG} | options


def hand(model: nn.Module, x, y, mean=F.cross_entropy, steps: int = STEPS, make=sgd, **options) -> nn.Module:
    """The model after as many steps by hand, each on all of x and y."""
    model = copy.deepcopy(model)
    train_by_hand(model, SimpleNamespace(x=x, y=y), steps, make, mean, **options)
    return model


def trains_as(expected: nn.Module, call: dict, accumulations=(1, 5), tolerance: float = 1e-12) -> None:
    """Copies of the call's model train to the weights that are expected, in one part and in several."""
    assert distance(call["model"], expected) > 1e-6
    for accumulation in accumulations:
        model = copy.deepcopy(call["model"])
        train(**call | {"model": model, "config": replace(call["config"], accumulation=accumulation)})
        assert distance(model, expected) < tolerance, accumulation


# ---- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("steps", 0, "1"),
        ("seed", -1, "0"),
        ("lr", 0, "1e-3"),
        ("accumulation", 65, "64"),
        ("schedule", "step", "cosine"),
        ("optimizer", "adam", "adamw"),
        ("precision", "fp8", "bf16"),
    ],
)
def test_a_setting_that_cannot_be(name, wrong, right):
    refusal({name: wrong}, right, function=Config)
    value = right if isinstance(wrong, str) else float(right) if name == "lr" else int(right)
    assert getattr(Config(**{name: value}), name) == value


@pytest.mark.parametrize("ranks", [SINGLE_PROCESS, Ranks(0, 2)], ids=["one", "two"])
def test_a_device_that_is_not_there(ranks):
    """On several ranks the message of a device that cannot sum names the CPU, too."""
    message = refusal({"name": "meta"}, function=ranks.pick_device)
    for name in re.findall(r"'(auto|cpu)'", message):
        assert ranks.pick_device(name).type in ("cpu", "cuda")


# ---- what a loss is --------------------------------------------------------------------------------------------------


def tokens_mean(outputs, targets):
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=0)


def known_mean(outputs, targets):
    return (outputs - targets)[targets.isfinite()].square().mean()


def marked_mean(outputs, targets):
    return (outputs - targets)[targets != -9].square().mean()


GAPS = REAL.where(torch.rand(N, 6, generator=torch.Generator().manual_seed(4), dtype=torch.float64) < 0.4, torch.nan)
MASKED = LABELS.where(torch.arange(N) % 4 > 0, IGNORE)
MEANS = {  # functions that return a mean: the function, the model, x, y
    "torch's": (F.cross_entropy, linear, X, LABELS),
    "torch's, with settings": (partial(F.cross_entropy, weight=WEIGHTS, label_smoothing=0.1), linear, X, LABELS),
    "torch's, that leaves a label out": (partial(F.cross_entropy, ignore_index=2), linear, X, LABELS),
    "of labels": (lambda o, t: F.cross_entropy(o, t), linear, X, MASKED),
    "of tokens, padding is label 0": (tokens_mean, reader, TOKENS, TOKENS),
    "of numbers": (lambda o, t: (o - t).abs().mean(), lambda: linear(6), X, REAL),
    "of numbers, gaps are NaN": (known_mean, lambda: linear(6), X, GAPS),
    "of numbers, gaps are -9": (marked_mean, lambda: linear(6), X, REAL.where(GAPS.isfinite(), -9)),
    "of an output for each example": (lambda o, t: o.square().mean(), lambda: linear(1), X, REAL[:, 0]),
}


@pytest.mark.parametrize("name", MEANS)
def test_a_mean(name):
    """In parts of unequal masks, too: what the mean leaves out is not counted."""
    loss, build, x, y = MEANS[name]
    call = call_of(build(), x, y, loss=loss)
    message = refusal(call, "the loss is a mean")
    call = followed(message, call, "loss", program=0 if programs(message) else None)
    trains_as(hand(build(), x, y, loss), call)


def test_a_pair_of_a_mean_and_its_count():
    loss = lambda o, t: ((o - t).square().mean(), t.numel())  # noqa: E731
    call = call_of(linear(6), X, REAL, loss=loss)
    call = followed(refusal(call, "the loss is a mean"), call, "loss", program=0)
    trains_as(hand(linear(6), X, REAL, F.mse_loss), call)


def test_the_advice_of_evaluate_is_for_it_too():
    data = TensorDataset(TOKENS, TOKENS)
    message = refusal({"model": reader(), "data": data, "loss": tokens_mean}, "the loss is a mean", function=evaluate)
    call = followed(message, {"model": reader(), "train_data": data, "loss": tokens_mean}, "loss", program=0)
    expected = tokens_mean(reader()(TOKENS), TOKENS).item()
    assert evaluate(reader(), data, batch_size=5, loss=call["loss"]).loss == pytest.approx(expected, rel=1e-12)


SUMS = {  # whose count is not the number of targets: the function, torch's mean, the model, x, y
    "padding is label 0": (
        lambda o, t: F.cross_entropy(o.flatten(0, 1), t.flatten(), ignore_index=0, reduction="sum"),
        *(tokens_mean, reader, TOKENS, TOKENS),
    ),
    "gaps are NaN": (
        lambda o, t: (o - t)[t.isfinite()].square().sum(),
        *(known_mean, lambda: linear(6), X, GAPS),
    ),
    "of means over the numbers of an example": (
        lambda o, t: (o - t).square().mean(1).sum(),
        *(F.mse_loss, lambda: linear(6), X, REAL),
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_of_unknown_count(name):
    loss, mean, build, x, y = SUMS[name]
    call = call_of(build(), x, y, loss=loss)
    call = followed(refusal(call, "Say what to divide by"), call, "loss", program=0)
    trains_as(hand(build(), x, y, mean), call)


def contrast(outputs, targets, reduction="sum"):
    scores = outputs @ outputs.detach().T
    return F.cross_entropy(scores, torch.arange(len(scores)), reduction=reduction)


@pytest.mark.parametrize(("reduction", "program"), [("sum", 0), ("mean", 1)])
def test_a_number_that_compares_examples(reduction, program):
    """A sum or a mean, which nothing tells but its author; not in parts, and then as the next message says."""
    loss, mean = partial(contrast, reduction=reduction), partial(contrast, reduction="mean")
    call = call_of(linear(), loss=loss, config=replace(CONFIG, accumulation=3))
    call = followed(refusal(call, "the loss is not a sum over the targets"), call, "loss", program=program)
    message = refusal(call, "accumulation is 3, but the loss of a batch is not the sum of its parts")
    call = followed(message, call, "accumulation")
    trains_as(hand(linear(), X, LABELS, mean), call, accumulations=(1,))


def test_a_penalty_that_is_added_once_for_a_batch():
    model = linear()
    penalty = lambda: model.weight.square().sum()  # noqa: E731
    once = lambda o, t: (cross_entropy_sum(o, t) + penalty(), len(t))  # noqa: E731
    message = refusal(call_of(model, loss=once, config=replace(CONFIG, accumulation=3)), "accumulation is 3, but")
    assert "times the number of targets" in message
    call = call_of(model, loss=lambda o, t: (cross_entropy_sum(o, t) + len(t) * penalty(), len(t)))
    reference = linear()
    train_by_hand(
        reference,
        SimpleNamespace(x=X, y=LABELS),
        STEPS,
        sgd,
        lambda o, t: F.cross_entropy(o, t) + reference.weight.square().sum(),
    )
    train(**call | {"config": replace(CONFIG, accumulation=3)})
    assert distance(model, reference) < 1e-12


@pytest.mark.parametrize("loss", [nn.MSELoss(), lambda o, t: (o - t).square().sum()], ids=["module", "function"])
@pytest.mark.parametrize("column", ["outputs", "targets"])
def test_outputs_and_targets_of_two_shapes(loss, column):
    model, y = (
        (linear(1), REAL[:, 0]) if column == "outputs" else (nn.Sequential(linear(1), nn.Flatten(0)), REAL[:, :1])
    )
    call = call_of(copy.deepcopy(model), X, y, loss=loss)
    call = followed(refusal(call, "outputs and targets differ in shape"), call, "loss", program=0)
    trains_as(hand(model, X, y, lambda o, t: (o.flatten() - t.flatten()).square().mean()), call)


def test_a_pair_whose_count_is_none():
    loss = lambda o, t: (cross_entropy_sum(o, t), None)  # noqa: E731
    message = refusal(call_of(linear(), loss=loss), "a tuple whose second is None")
    (pair,) = re.findall(r"\(total, \S+\)+", message)
    ours = lambda outputs, targets: eval(pair, {"total": cross_entropy_sum(outputs, targets), "targets": targets})  # noqa: E731
    trains_as(hand(linear(), X, LABELS), call_of(linear(), loss=ours))


def test_a_class_in_place_of_a_loss():
    call = call_of(linear(), loss=nn.CrossEntropyLoss)
    call = followed(refusal(call, "the loss is a class"), call, "loss")
    trains_as(hand(linear(), X, LABELS), call)


class Temperature(nn.Module):
    """Cross-entropy at a temperature that it learns."""

    def __init__(self):
        super().__init__()
        self.log = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, outputs, targets):
        return F.cross_entropy(outputs / self.log.exp(), targets, reduction="sum")


def with_temperature_by_hand() -> tuple[nn.Module, torch.Tensor]:
    model, log = linear(), torch.zeros((), dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([*model.parameters(), log], lr=LR)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.cross_entropy(model(X) / log.exp(), LABELS).backward()
        optimizer.step()
    return model, log


def test_a_loss_with_parameters_of_its_own():
    loss, (expected, log) = Temperature(), with_temperature_by_hand()
    call = call_of(linear(), loss=loss)
    call = followed(refusal(call, "a parameter of its own (log)"), call, program=0)
    train(**call)
    torch.testing.assert_close(loss.log, log, rtol=0, atol=1e-12)
    torch.testing.assert_close(call["model"].weight, expected.weight, rtol=0, atol=1e-12)


def test_a_function_with_a_parameter_of_its_own():
    temperature, (expected, log) = torch.zeros((), dtype=torch.float64, requires_grad=True), with_temperature_by_hand()
    call = call_of(linear(), loss=lambda o, t: F.cross_entropy(o / temperature.exp(), t, reduction="sum"))
    message = refusal(call, "a parameter of its own (of shape ())")
    model = call["model"]
    (parameter,) = expressions(message, "model.temperature")
    model.temperature = eval(parameter, {"torch": torch, "temperature": temperature.detach()})
    train(**call | {"loss": lambda o, t: F.cross_entropy(o / model.temperature.exp(), t, reduction="sum")})
    torch.testing.assert_close(model.temperature, log, rtol=0, atol=1e-12)
    torch.testing.assert_close(model.weight, expected.weight, rtol=0, atol=1e-12)


# ---- axes and types --------------------------------------------------------------------------------------------------


def test_classes_last_where_torchs_loss_wants_them_first():
    call = call_of(reader(), TOKENS, TOKENS, loss=nn.CrossEntropyLoss(ignore_index=0))
    call = followed(refusal(call, "the classes, as axis 1"), call, "loss", program=0)
    trains_as(hand(reader(), TOKENS, TOKENS, tokens_mean), call)


@pytest.mark.parametrize("axis", [1, -1])
def test_as_many_classes_as_steps_of_time(axis):
    x = torch.randn(N, 4, 5, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    y = torch.randint(5, (N, 5), generator=torch.Generator().manual_seed(6))
    torch.manual_seed(0)
    model = nn.Conv1d(4, 5, 1).double()
    call = call_of(copy.deepcopy(model), x, y)
    message = refusal(call, "the classes may be axis 1")
    call = followed(message, call, "loss", program=0, number=0 if axis == 1 else 1)
    trains_as(hand(model, x, y, lambda o, t: F.cross_entropy(o.movedim(axis, 1), t)), call)


class Recurrent(nn.Module):
    """Time first: (T, B, 4) → (T, B, 5), or of the last step alone (B, 5)."""

    def __init__(self, last: bool):
        super().__init__()
        torch.manual_seed(1)
        self.cell, self.out, self.last = nn.GRU(4, 8).double(), nn.Linear(8, 5).double(), last

    def forward(self, x):
        outputs = self.out(self.cell(x)[0])
        return outputs[-1] if self.last else outputs


@pytest.mark.parametrize("last", [False, True], ids=["a target for each step", "one for each sequence"])
def test_time_first(last):
    """The loss that was asked for stays, and what has the examples first is not turned."""
    x = torch.randn(N, 7, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y = torch.randn(N, *(() if last else (7,)), 5, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def time_first(pairs):
        x, y = zip(*pairs, strict=True)
        return torch.stack(x, 1), torch.stack(y, 0 if last else 1)

    call = call_of(Recurrent(last), x, y, loss=nn.MSELoss(), collate=time_first)
    message = refusal(call, "the first axis of both must count the examples", "pass BatchFirst(model)")
    call = followed(message, call, "collate", model="BatchFirst(model)", program=0)
    expected = hand(Recurrent(last), x.transpose(0, 1), y if last else y.transpose(0, 1), F.mse_loss)
    train(**call | {"config": replace(CONFIG, accumulation=5)})
    assert distance(call["model"].model, expected) < 1e-12


def test_a_collate_that_leaves_examples_out():
    """Nothing is to be turned."""
    collate = lambda pairs: tuple(map(torch.stack, zip(*pairs[1:], strict=True)))  # noqa: E731
    message = refusal(call_of(linear(), collate=collate), "the first axis of both must count the examples")
    assert not programs(message)


CLASSES = {  # targets that are no class indices, and what the message does to them
    "float": (LABELS.double(), lambda y, message: y.long() if "call .long()" in message else None),
    "int32": (LABELS.int(), lambda y, message: y.long() if "call .long()" in message else None),
    "a column": (
        LABELS[:, None],
        lambda y, message: eval(*re.findall(r"take (targets\.\S+)", message), {"targets": y}),
    ),
    "one-hot": (
        F.one_hot(LABELS),
        lambda y, message: eval(re.findall(r"take (targets\.[^ ,]+)", message)[0], {"targets": y}),
    ),
}


@pytest.mark.parametrize("name", CLASSES)
def test_targets_that_are_no_class_indices(name):
    y, mended = CLASSES[name]
    message = refusal(call_of(linear(), X, y))
    trains_as(hand(linear(), X, LABELS), call_of(linear(), X, mended(y, message)))


@pytest.mark.parametrize(
    ("y", "number", "mean"),
    [
        (REAL[:, :3], "MSELoss", F.mse_loss),
        (REAL[:, :3].softmax(1), "CrossEntropyLoss", F.cross_entropy),
        ((REAL[:, :3] > 0).double(), "BCEWithLogitsLoss", F.binary_cross_entropy_with_logits),
    ],
    ids=["numbers", "shares", "several labels"],
)
def test_targets_like_the_outputs(y, number, mean):
    """No .long(), which would round them."""
    call = call_of(linear(), X, y)
    message = refusal(call, "pass a loss for numbers, loss=")
    assert ".long()" not in message
    (loss,) = re.findall(rf"torch\.nn\.{number}\(\)", message)
    trains_as(hand(linear(), X, y, mean), call | {"loss": eval(loss)})


def test_one_real_number_for_each_example():
    call = call_of(linear(1), X, REAL[:, 0])
    message = refusal(call, "returns one for each target")
    assert ".long()" not in message
    model = nn.Sequential(linear(1), nn.Flatten(0))
    call = followed(message, call | {"model": copy.deepcopy(model)}, "loss")
    trains_as(hand(model, X, REAL[:, 0], F.mse_loss), call)


def convolution() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 3, 4), nn.Flatten())


@pytest.mark.parametrize("build", [linear, convolution])
def test_data_of_another_type_than_the_weights(build):
    call = call_of(build().float())
    message = refusal(call, "the model does not take the data")
    (change,) = re.findall(r"by (x\.\w+\(\))", message)
    x = eval(change, {"x": X})
    trains_as(hand(build().float(), x, LABELS), call | {"train_data": TensorDataset(x, LABELS)}, tolerance=1e-5)


def test_whole_numbers_where_a_loss_computes_with_real_ones():
    bits = (REAL[:, :3] > 0).long()
    call = call_of(linear(), X, bits, loss=nn.BCEWithLogitsLoss())
    message = refusal(call, "computes with real numbers")
    (change,) = re.findall(r"\.float\(\)", message)
    y = eval(f"bits{change}", {"bits": bits})
    expected = hand(linear(), X, y.double(), F.binary_cross_entropy_with_logits)
    trains_as(expected, call | {"train_data": TensorDataset(X, y)}, tolerance=1e-6)


def test_real_numbers_where_a_loss_of_ones_own_looks_for_classes():
    loss = lambda o, t: F.cross_entropy(o, t, reduction="sum")  # noqa: E731
    call = call_of(linear(), X, LABELS.double(), loss=loss)
    message = refusal(call, "which they become by .long()")
    (change,) = re.findall(r"\.long\(\)", message)
    y = eval(f"y{change}", {"y": LABELS.double()})
    trains_as(hand(linear(), X, LABELS), call | {"train_data": TensorDataset(X, y)})


def test_real_numbers_where_evaluate_looks_for_classes():
    message = refusal({"model": linear(), "data": TensorDataset(X, LABELS.double())}, "int64", function=evaluate)
    (change,) = re.findall(r"\.long\(\)", message)
    y = eval(f"y{change}", {"y": LABELS.double()})
    assert evaluate(linear(), TensorDataset(X, y)).loss == pytest.approx(F.cross_entropy(linear()(X), LABELS).item())


@pytest.mark.parametrize(
    ("y", "regression", "change"), [(LABELS.int(), False, "y.long()"), (LABELS, True, "y.float()")]
)
def test_targets_that_tensor_data_refuses(y, regression, change):
    message = refusal({"x": X, "y": y, "regression": regression}, change, function=TensorData)
    assert len(TensorData(X, eval(change, {"y": y}), regression)) == N
    if not regression:
        options = {"regression": eval(expressions(message, "regression")[0])}
        assert TensorData(X, REAL, **options).regression


def test_a_stride_that_leaves_tokens_out():
    message = refusal({"tokens": np.arange(50), "context": 8, "stride": 9}, function=Windows)
    largest = int(expressions(message, "context")[0])
    assert len(Windows(np.arange(50), 8, largest)) == 7


# ---- the model -------------------------------------------------------------------------------------------------------


class Heads(nn.Module):
    """Returns what `form` makes of its logits."""

    def __init__(self, form: Callable):
        super().__init__()
        self.net, self.form = net(), form

    def forward(self, x):
        return self.form(self.net(x))


@pytest.mark.parametrize(
    "form",
    [lambda o: SimpleNamespace(loss=None, logits=o), lambda o: {"out": o}, lambda o: (o, o.mean())],
    ids=["object", "dict", "tuple"],
)
def test_a_model_that_returns_more_than_a_tensor(form):
    call = call_of(Heads(form))
    message = refusal(call, "it must return one tensor")
    call = followed(message, call, model="Wrapped(model)", program=0)
    train(**call)
    assert distance(call["model"].model.net, hand(net(), X, LABELS)) < 1e-12


def test_a_model_that_torch_compile_has_wrapped():
    call = call_of(torch.compile(net(), backend="eager"))
    message = refusal(call, "wrapped by torch.compile")
    inner = eval(*re.findall(r"pass (model\.\w+)", message), {"model": call["model"]})
    assert followed(message, call, "compile")["config"] == replace(CONFIG, compile=True)
    inner.compile(backend="eager")
    train(**call | {"model": inner})
    assert distance(inner, hand(net(), X, LABELS)) < 1e-12


def test_a_model_in_data_parallel():
    call = call_of(nn.DataParallel(net()))
    message = refusal(call, "wrapped in DataParallel")
    model = eval(*re.findall(r"pass (model\.\w+)", message), {"model": call["model"]})
    trains_as(hand(net(), X, LABELS), call | {"model": model})


def test_a_lazy_model_and_one_on_meta():
    message = refusal(call_of(nn.LazyLinear(3)), "has no values yet: call a lazy model once")
    torch.manual_seed(0)
    lazy = nn.LazyLinear(3, dtype=torch.float64)
    lazy(X)
    trains_as(hand(lazy, X, LABELS), call_of(lazy))
    with torch.device("meta"):
        model = nn.Linear(4, 3, dtype=torch.float64)
    (move,) = re.findall(r"to_empty\(.+?\)", message)
    model = eval(f"model.{move}", {"model": model})
    model.load_state_dict(linear().state_dict())
    trains_as(hand(linear(), X, LABELS), call_of(model))


def test_a_frozen_model():
    call = call_of(net().requires_grad_(False))
    message = refusal(call, "no parameter that trains")
    eval(*re.findall(r"model\.requires_grad_\(\w+\)", message), {"model": call["model"]})
    trains_as(hand(net(), X, LABELS), call)


@pytest.mark.parametrize("functional", [False, True])
def test_an_embedding_with_sparse_gradients(functional):
    class Rows(nn.Module):
        def __init__(self, **options):
            super().__init__()
            torch.manual_seed(0)
            self.rows = nn.Embedding(7, 8, **({} if functional else options)).double()
            self.options, self.out = options, nn.Linear(8, 3).double()

        def forward(self, x):
            rows = F.embedding(x, self.rows.weight, **self.options) if functional else self.rows(x)
            return self.out(rows.mean(1))

    by_rows = (
        {"optimizer": lambda model: torch.optim.SparseAdam(model.parameters()), "config": OWN} if functional else {}
    )
    message = refusal(call_of(Rows(sparse=True), TOKENS, LABELS, **by_rows), "an optimizer for dense gradients")
    options = {"sparse": eval(expressions(message, "sparse")[0])}
    trains_as(hand(Rows(), TOKENS, LABELS), call_of(Rows(**options), TOKENS, LABELS))


def test_a_parameter_by_expand():
    class Shared(nn.Module):
        def __init__(self, weight):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            return x @ self.weight

    tensor = torch.randn(4, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64).expand(4, 3)
    message = refusal(call_of(Shared(nn.Parameter(tensor))), "by `expand`")
    names = {"torch": torch, "tensor": tensor}
    exec(programs(message)[0], names)
    expected = Shared(nn.Parameter(tensor.clone()))
    trains_as(hand(expected, X, LABELS), call_of(Shared(names["parameter"])))


@pytest.mark.parametrize(("dtype", "precision"), [(torch.bfloat16, "bf16"), (torch.float16, "fp16")])
def test_weights_of_sixteen_bits(dtype, precision):
    """In float32 they train in that precision: close to float32, and not equal."""
    call = call_of(net().to(dtype), X.float())
    call = followed(refusal(call, "small updates do not survive"), call, "precision") | {"model": net().float()}
    assert call["config"].precision == precision
    expected = hand(net().float(), X.float(), LABELS)
    train(**call)
    assert 0 < distance(call["model"], expected) < 1e-2


def test_the_smallest_micro_batch_of_batch_norm():
    """12 = 11 + 1: the short last batch is left out; where whole batches are cut up as small, that would not help."""

    def build():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).double()

    call = call_of(build(), config=replace(CONFIG, batch_size=11))
    message = refusal(call, "a micro-batch of one example would come up", "another batch_size than 11")
    call = followed(message, call, "drop_last")
    seen = []
    call["model"].register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    train(**call)
    assert seen[-STEPS:] == [11] * STEPS
    call = call_of(build(), config=replace(CONFIG, accumulation=12))
    message = refusal(call, "a larger batch_size than 12, or a smaller accumulation than 12")
    assert "drop_last" not in message
    train(**call | {"config": replace(CONFIG, accumulation=6)})


class Moving(nn.Linear):
    """Its first call fits its bias to what it sees."""

    started = False

    def forward(self, x):
        if not self.started:
            self.bias.data -= super().forward(x).mean(0).detach()
            self.started = True
        return super().forward(x)


def test_a_forward_that_changes_a_parameter_in_its_first_call():
    def build():
        torch.manual_seed(0)
        return Moving(4, 3).double().requires_grad_(True)

    frozen = build()
    frozen.bias.requires_grad_(False)  # no copy is made of what does not train
    refusal(call_of(frozen), "call it once on a batch before train")
    again = build()
    again.bias.requires_grad_(False)
    again(X)
    trains_as(hand(again, X, LABELS), call_of(again))


class Forces(nn.Module):
    """Energies of positions, and as its outputs their gradients."""

    def __init__(self):
        super().__init__()
        self.energy = net()

    def forces(self, x):
        x = x.requires_grad_()
        return torch.autograd.grad(self.energy(x).sum(), x, create_graph=True)[0]

    forward = forces


def test_a_gradient_that_is_taken_in_the_forward():
    call = call_of(Forces(), X.clone(), X.clone(), loss=nn.MSELoss())
    message = refusal(call | {"val_data": call["train_data"]}, "validation runs without")
    (lines,) = programs(message)
    with_gradients, comment = lines.splitlines()
    assert comment.strip().startswith("...")
    names = {"torch": torch}
    exec(f"def forward(self, x):\n    {with_gradients}\n        return self.forces(x)", names)
    kind = type("Mended", (Forces,), {"forward": names["forward"]})
    mended = call_of(kind(), X.clone(), X.clone(), loss=nn.MSELoss(), val_data=TensorDataset(X.clone(), X.clone()))
    expected = hand(Forces(), X.clone(), X.clone(), F.mse_loss)
    assert train(**mended).history[-1]["val_loss"] > 0
    assert distance(mended["model"], expected) < 1e-12


def test_an_operation_without_a_deterministic_kernel():
    class Put(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = linear()

        def forward(self, x):
            outputs = self.layer(x)
            return outputs.clone().put_(torch.tensor([0]), outputs.detach()[0, :1].clone())

    call = call_of(Put())
    call = followed(refusal(call, "does not have a deterministic"), call, "deterministic")
    expected = hand(Put(), X, LABELS)
    train(**call | {"train_data": InOrder(X, LABELS)})
    assert distance(call["model"], expected) < 1e-12


class InOrder(TensorDataset):
    """All of it in one order, whatever is asked for; but of two examples, which train tries, these."""

    pure = True

    def batch(self, indices):
        return self[torch.as_tensor(indices)] if len(indices) <= 2 else self[:]


# ---- the optimizer ---------------------------------------------------------------------------------------------------


def test_an_optimizer_in_place_of_a_function():
    """The very one trains: its rates, its groups."""
    model = net()
    groups = [{"params": model[0].parameters(), "lr": 0.3}, {"params": model[2].parameters()}]
    call = call_of(model, optimizer=torch.optim.RMSprop(groups, lr=0.01), config=OWN)
    call = followed(refusal(call, "optimizer is an object, RMSprop"), call, "optimizer")

    def make(model):
        return torch.optim.RMSprop(
            [groups[0] | {"params": model[0].parameters()}, {"params": model[2].parameters()}], lr=0.01
        )

    train(**call)
    assert distance(model, hand(net(), X, LABELS, make=make)) < 1e-12


@pytest.mark.parametrize("given", [torch.optim.Adagrad, partial(torch.optim.Adagrad, lr=0.3)], ids=["class", "partial"])
def test_a_class_in_place_of_a_function(given):
    call = call_of(net(), optimizer=given, config=OWN)
    call = followed(refusal(call, "called with the model, not with parameters"), call, "optimizer")
    trains_as(hand(net(), X, LABELS, make=lambda model: given(model.parameters())), call)


def test_the_name_of_an_optimizer():
    call = call_of(net(), optimizer="adamw", config=OWN)
    call = followed(refusal(call, "a setting"), call, "optimizer") | {"optimizer": None}
    assert call["config"].optimizer == "adamw"
    make = lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0)  # noqa: E731
    trains_as(hand(net(), X, LABELS, make=make), call)


def test_a_function_that_returns_no_optimizer():
    refusal(call_of(net(), optimizer=lambda model: None), "must return a torch.optim.Optimizer")
    refusal(call_of(net(), optimizer=3), "a function of the model that returns a torch.optim.Optimizer")
    trains_as(hand(net(), X, LABELS), call_of(net(), optimizer=sgd))


@pytest.mark.parametrize("cure", ["add it", "freeze it"])
def test_a_parameter_in_no_group(cure):
    def first(model):
        return torch.optim.SGD(model[0].parameters(), lr=LR)

    call = call_of(net(), optimizer=first)
    message = refusal(call, "2.weight of the model is in no group", cure)
    if cure == "add it":
        trains_as(hand(net(), X, LABELS), call | {"optimizer": sgd})
        return
    (freeze,) = re.findall(r"requires_grad_\(False\)", message)
    model = net()
    eval(f"model.{freeze}", {"model": model[2]})
    trains_as(hand(model, X, LABELS, make=first), call | {"model": model})


def test_parameters_of_another_model():
    other = net()
    refusal(call_of(net(), optimizer=lambda model: torch.optim.SGD([*model.parameters(), *other.parameters()], lr=LR)),
            "must take the model that it is called with")  # fmt: skip
    trains_as(hand(net(), X, LABELS), call_of(net(), optimizer=sgd))


def test_a_setting_in_no_group():
    call = call_of(net(), optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=1e-3))
    refusal(call, "lr is 0.1 in the config, but in no group of the optimizer: set it there")
    trains_as(hand(net(), X, LABELS), call | {"optimizer": sgd})


def test_a_fused_optimizer_over_a_slice():
    def build():
        model = linear()
        model.weight = nn.Parameter(torch.randn(3, 8, generator=torch.Generator().manual_seed(0)).double()[:, ::2])
        return model

    def make(model, fused=True):
        return torch.optim.SGD(model.parameters(), lr=LR, fused=fused)

    call = call_of(build(), optimizer=make)
    fused = eval(expressions(refusal(call, "overwrites its neighbours"), "fused")[0])
    trains_as(hand(build(), X, LABELS), call | {"optimizer": partial(make, fused=fused)})


def test_a_rate_of_numpys():
    make = lambda model, lr: torch.optim.SGD(model.parameters(), lr=lr)  # noqa: E731
    message = refusal(call_of(net(), optimizer=partial(make, lr=np.float64(LR))), "which no checkpoint can hold")
    (plain,) = re.findall(r"float\(lr\)", message)
    trains_as(hand(net(), X, LABELS), call_of(net(), optimizer=lambda m: make(m, eval(plain, {"lr": np.float64(LR)}))))


def test_an_optimizer_whose_step_wants_a_closure():
    """By hand, as the message says, it minimises."""
    lbfgs = lambda model: torch.optim.LBFGS(model.parameters(), lr=0.1)  # noqa: E731
    call = call_of(net(), optimizer=lbfgs, config=OWN)
    refusal(call, "wants a closure", "AdamW say", "by hand")
    adamw = lambda model: torch.optim.AdamW(model.parameters(), lr=LR)  # noqa: E731
    trains_as(hand(net(), X, LABELS, make=adamw), call | {"optimizer": adamw})
    model = net()
    optimizer = lbfgs(model)

    def closure():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(X), LABELS)
        loss.backward()
        return loss

    first, *_, last = [optimizer.step(closure).item() for _ in range(STEPS)]
    assert last < first


class Climbing(torch.optim.SGD):
    """Calls the closure that it was not given."""

    def step(self, closure=None):
        closure()
        super().step()


def test_an_optimizer_that_calls_a_closure_in_any_case():
    refusal(call_of(net(), optimizer=lambda m: Climbing(m.parameters(), lr=LR)), "wants a closure", "AdamW say")


class Lookahead(torch.optim.Optimizer):
    """Every third step, half-way back towards where it was three steps before."""

    def __init__(self, parameters, in_state: bool):
        super().__init__(parameters, {"lr": LR})
        self.slow, self.in_state = {}, in_state
        for parameter in self.param_groups[0]["params"]:
            self.kept(parameter)["slow"] = parameter.detach().clone()
        self.slow = list(self.slow.values())

    def kept(self, parameter):
        if self.in_state:  # as the message has it: self.state[parameter][name]
            return self.state[parameter]
        return self.slow.setdefault(parameter, {}) if isinstance(self.slow, dict) else {}

    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            parameter -= LR * parameter.grad
            kept = self.kept(parameter)
            kept["steps"] = kept.get("steps", 0) + 1
            if kept["steps"] % 3 == 0:
                parameter.copy_(kept["slow"].lerp_(parameter, 0.5))


def test_tensors_that_no_checkpoint_holds(tmp_path):
    lost, kept = (lambda m, on=on: Lookahead(m.parameters(), on) for on in (False, True))
    call = call_of(net(), optimizer=lost, run=tmp_path / "a", config=OWN)
    message = refusal(call, "which its state_dict() lacks", "self.state[parameter][name]")
    assert re.search(r"or train without run=", message)
    train(**call_of(net(), optimizer=lost, config=OWN))
    call = call_of(net(), optimizer=kept, run=tmp_path / "b", config=OWN)
    train(**call | {"config": replace(OWN, steps=2)})
    resumed = net()
    train(**call | {"model": resumed})
    assert distance(resumed, hand(net(), X, LABELS, make=kept)) < 1e-12


# ---- numbers that are not finite -------------------------------------------------------------------------------------


class Steep(nn.Module):
    """Its loss grows without bound where steps are too long."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.full((4,), 2.0, dtype=torch.float64))

    def forward(self, x):
        return (x @ self.weight) ** 2


@pytest.mark.parametrize("cure", ["lower lr", "set clip"])
def test_steps_that_are_too_long(cure):
    y, mean = torch.zeros(N, dtype=torch.float64), lambda o, t: (o - t).square().mean()
    config = replace(CONFIG, steps=8, lr=1e3)
    message = refusal(call_of(Steep(), X, y, loss=nn.MSELoss(), config=config), "is not finite", cure,
                      kind=FloatingPointError)  # fmt: skip
    assert "nonfinite='skip'" in message
    change = {"lr": 1e-3} if cure == "lower lr" else {"clip": 1e-4}
    make = lambda model: torch.optim.SGD(model.parameters(), lr=change.get("lr", 1e3))  # noqa: E731
    expected = hand(Steep(), X, y, mean, steps=8, make=make, clip=change.get("clip", 0))
    trains_as(expected, call_of(Steep(), X, y, loss=nn.MSELoss(), config=replace(config, **change)), tolerance=1e-9)


def spoilt(step: int) -> Callable:
    """Cross-entropy, not a number at the training step of this number (the first calls are trials)."""
    passes = []

    def loss(outputs, targets):
        passes.extend([1] * outputs.requires_grad * (len(targets) == N))
        return cross_entropy_sum(outputs, targets) * (torch.nan if len(passes) == step else 1.0)

    return loss


def test_a_step_that_is_left_out_in_the_run_that_it_ended(tmp_path):
    """The folder goes on under nonfinite='skip', as if the run had begun so; the examples are those of the message."""
    x = X.clone()
    x[5] = torch.nan
    config = replace(CONFIG, steps=9, batch_size=4, save_every=1, momentum=0.9)
    call = call_of(net(), x, LABELS, config=config, run=tmp_path / "run")
    message = refusal(call, "is not finite", "Look at example [5]", kind=FloatingPointError)
    assert "lower lr" not in message  # an input is to blame
    resumed, straight = net(), net()
    call = followed(message, call | {"model": resumed}, "nonfinite")
    result = train(**call)
    train(**call | {"model": straight, "run": None})
    assert result.skipped == 3 and distance(resumed, straight) == 0 < distance(resumed, net())


def test_more_skips_than_allowed_in_the_run_that_they_ended(tmp_path):
    x = X.clone()
    x[:8] = torch.nan
    config = replace(CONFIG, steps=9, batch_size=2, save_every=1, nonfinite="skip", max_skips=2)
    call = call_of(net(), x, LABELS, config=config, run=tmp_path / "run")
    refusal(call, "allow more by max_skips", kind=FloatingPointError)
    more = call | {"config": replace(config, max_skips=9)}
    resumed, straight = net(), net()
    result = train(**more | {"model": resumed})
    train(**more | {"model": straight, "run": None})
    assert result.skipped > 2 and distance(resumed, straight) == 0


@pytest.mark.parametrize("where", ["training", "validation"])
def test_a_loss_that_is_not_finite_though_its_gradient_is(where):
    def loss(outputs, targets):
        is_bad = outputs.requires_grad if where == "training" else not torch.is_grad_enabled()
        total = cross_entropy_sum(outputs, targets)
        return total + (total.detach() * torch.inf if is_bad and len(targets) == N else 0)

    call = call_of(net(), loss=loss, val_data=TensorDataset(X, LABELS))
    call = followed(refusal(call, f"the {where} loss", kind=FloatingPointError), call, "nonfinite")
    trains_as(hand(net(), X, LABELS), call | {"model": net()})


def test_an_update_that_is_too_long(tmp_path):
    y, loss = torch.zeros(N, dtype=torch.float64), nn.MSELoss()
    call = call_of(Steep(), X, y, loss=loss, config=replace(CONFIG, lr=1e307), run=tmp_path / "a")
    refusal(call, "Lower them and start a new run", kind=FloatingPointError)
    call = call_of(Steep(), X, y, loss=loss, config=replace(CONFIG, lr=1e-3), run=tmp_path / "b")
    train(**call)
    make = lambda model: torch.optim.SGD(model.parameters(), lr=1e-3)  # noqa: E731
    assert distance(call["model"], hand(Steep(), X, y, F.mse_loss, make=make)) < 1e-12


def test_a_buffer_that_overflows(tmp_path):
    """Without what overflows the run goes on in its folder, from before that step, as if it had never been there."""
    wrong = X.clone()
    wrong[5] = 1e200  # its square overflows

    def build():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)).double()

    config = replace(CONFIG, batch_size=4, steps=9, save_every=1)
    call = call_of(build(), wrong, LABELS, config=config, run=tmp_path / "run")
    refusal(call, "resume from the newest checkpoint", kind=FloatingPointError)
    resumed, straight = build(), build()
    train(**call | {"model": resumed, "train_data": TensorDataset(X, LABELS)})
    train(straight, TensorDataset(X, LABELS), None, config)
    assert distance(resumed, straight) == 0


@pytest.mark.parametrize("cure", ["widen the model", "fix the labels"])
def test_a_label_that_is_out_of_range(cure):
    y = LABELS + 1
    refusal(call_of(linear(3), X, y), "label 3 is out of range for 3 classes", cure)
    model, y = (linear(4), y) if cure == "widen the model" else (linear(3), y - 1)
    trains_as(hand(model, X, y), call_of(model, X, y))


# ---- what changes while it trains ------------------------------------------------------------------------------------


def test_a_part_that_is_set_free_during_the_run():
    call = call_of(net(), config=replace(CONFIG, steps=2))
    call["model"][0].requires_grad_(False)

    def free(record, model):
        model[0].requires_grad_(True)

    message = refusal(call | {"on_step": free}, "Call train once for each part", kind=RuntimeError)
    call["model"] = net()
    call["model"][0].requires_grad_(False)
    train(**call)
    eval(f"part.{re.findall(r'requires_grad_[(][)]', message)[0]}", {"part": call["model"][0]})
    train(**call)
    expected = net()
    expected[0].requires_grad_(False)
    expected = hand(expected, X, LABELS, steps=2)
    expected[0].requires_grad_(True)
    assert distance(call["model"], hand(expected, X, LABELS, steps=2)) < 1e-12


def test_a_parameter_that_another_replaces():
    """Its values may change: those of a bias that is set to zero before each forward."""

    def replaced(module, inputs):
        if torch.is_grad_enabled():
            module.bias = nn.Parameter(torch.zeros_like(module.bias))

    def copied(module, inputs):
        with torch.no_grad():
            module.bias.copy_(torch.zeros_like(module.bias))

    call = call_of(net())
    call["model"][2].register_forward_pre_hook(replaced)
    refusal(call, "change values only, by copy_()", kind=RuntimeError)
    call = call_of(net())
    call["model"][2].register_forward_pre_hook(copied)
    reference = net()
    reference[2].register_forward_pre_hook(copied)
    train_by_hand(reference, SimpleNamespace(x=X, y=LABELS), STEPS, sgd)
    train(**call)
    assert distance(call["model"], reference) < 1e-12


def test_a_look_that_changes_a_weight():
    def shrink(record, model):
        with torch.no_grad():
            model[0].weight.mul_(0.5)
        looks.append(model[0].weight.norm().item())

    looks = []
    message = refusal(call_of(net(), on_step=shrink), "on_step has changed a weight", kind=RuntimeError)
    (copying,) = re.findall(r"copy\.deepcopy\(model\)", message)
    look = lambda record, model: shrink(record, eval(copying, {"copy": copy, "model": model}))  # noqa: E731
    trains_as(hand(net(), X, LABELS), call_of(net(), on_step=look))
    assert len(looks) == 1 + 2 * STEPS


# ---- folders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("validated", [False, True])
@pytest.mark.parametrize("cure", ["as before", "another run"])
def test_a_part_that_was_frozen_since_the_checkpoint(tmp_path, validated, cure):
    data = TensorDataset(X, LABELS) if validated else None
    call = call_of(net(), val_data=data, run=tmp_path / "run", config=replace(CONFIG, steps=2))
    train(**call)
    call |= {"model": net(), "config": CONFIG}
    call["model"][0].requires_grad_(False)
    message = refusal(call, "was a part frozen since")
    if cure == "as before":
        call["model"].requires_grad_(True)
        train(**call)
        assert distance(call["model"], hand(net(), X, LABELS)) < 1e-12
        return
    call = followed(message, call, program=0) | {"run": tmp_path / "another"}
    train(**call)
    expected = hand(net(), X, LABELS, steps=2)
    expected[0].requires_grad_(False)
    assert distance(call["model"], hand(expected, X, LABELS)) < 1e-12


def test_a_folder_of_another_config(tmp_path):
    call = call_of(net(), run=tmp_path / "run", config=replace(CONFIG, steps=2))
    train(**call)
    message = refusal(
        call | {"config": replace(CONFIG, lr=0.5)}, "choose another folder, or continue with the old values"
    )
    old = float(re.findall(r"lr: (\S+) →", message)[0])
    for run, lr in (("run", old), ("another", 0.5)):
        model = net()
        train(**call | {"model": model, "run": tmp_path / run, "config": replace(CONFIG, lr=lr)})
        make = lambda model, lr=lr: torch.optim.SGD(model.parameters(), lr=lr)  # noqa: E731
        assert distance(model, hand(net(), X, LABELS, make=make)) < 1e-12


def test_a_checkpoint_of_another_run(tmp_path):
    """It was copied into the folder; taken out, the run goes on from its own."""
    call = call_of(net(), run=tmp_path / "run", config=replace(CONFIG, steps=2))
    train(**call)
    train(**call_of(net(), run=tmp_path / "other", config=replace(CONFIG, steps=3)))
    (foreign,) = (tmp_path / "other" / "checkpoints").iterdir()
    copied = tmp_path / "run" / "checkpoints" / foreign.name
    copied.write_bytes(foreign.read_bytes())
    refusal(call | {"config": CONFIG}, "Take it out to go on from the one before it")
    copied.unlink()
    model = net()
    train(**call | {"model": model, "config": CONFIG})
    assert distance(model, hand(net(), X, LABELS)) < 1e-12


def test_other_data_in_the_folder_of_a_run(tmp_path, capsys):
    """The run goes on with the new, as printed; for a run of its own another folder is chosen."""
    call = call_of(net(), run=tmp_path / "run", config=replace(CONFIG, steps=2))
    train(**call)
    other = {"train_data": TensorDataset(X + 1, LABELS), "config": CONFIG}
    for folder, halfway in (("run", hand(net(), X, LABELS, steps=2)), ("another", hand(net(), X + 1, LABELS, steps=2))):
        model = net()
        capsys.readouterr()
        train(**call | other | {"model": model, "run": tmp_path / folder})
        message = read(capsys.readouterr().out)
        assert ("for a run of its own choose another folder" in message) == (folder == "run")
        assert distance(model, hand(halfway, X + 1, LABELS, steps=2)) < 1e-12


def test_a_run_without_a_best_checkpoint(tmp_path):
    call = call_of(net(), run=tmp_path / "run", config=replace(CONFIG, steps=2))
    train(**call)
    message = refusal({"run": tmp_path / "run"}, "needs validation data", kind=FileNotFoundError, function=best_weights)
    assert "a validation to have run" in message
    train(**call | {"model": net(), "run": tmp_path / "validated", "val_data": call["train_data"]})
    best = net()
    best.load_state_dict(best_weights(tmp_path / "validated"))
    assert distance(best, call["model"]) == 0


def test_a_file_in_place_of_a_folder(tmp_path):
    (tmp_path / "run").write_text("mine")
    refusal(call_of(net(), run=tmp_path / "run"), "is a file: name a folder")
    train(**call_of(net(), run=tmp_path / "folder"))


# ---- batches, workers, memory ----------------------------------------------------------------------------------------


def test_a_batch_that_is_larger_than_the_data():
    call = call_of(net(), config=replace(CONFIG, batch_size=50, drop_last=True))
    call = followed(refusal(call, "drop_last leaves out every batch"), call, "drop_last")
    trains_as(hand(net(), X, LABELS), call)


class Fork(TensorDataset):
    """Its examples cannot be had in a worker."""

    def __init__(self, *tensors, trouble: Callable):
        super().__init__(*tensors)
        self.trouble = trouble

    def __getitem__(self, i):
        if torch.utils.data.get_worker_info():
            self.trouble()
        return super().__getitem__(i)


def end_process():
    raise SystemExit(3)


@pytest.mark.slow
def test_a_worker_that_ends():
    call = call_of(net(), config=replace(CONFIG, workers=1))
    call["train_data"] = Fork(X, LABELS, trouble=end_process)
    message = refusal(call, "a worker ended (exit code 3)", kind=RuntimeError)
    trains_as(hand(net(), X, LABELS), followed(message, call, "workers"))


@pytest.mark.parametrize("processes", [[], [SimpleNamespace(pid=1, exitcode=None)]], ids=["not started", "failed"])
def test_workers_that_cannot_be_had(processes, monkeypatch):
    monkeypatch.setattr(workers, "EXIT_TIMEOUT", 0.0)
    message = read(workers._explained(OSError("no more processes"), processes, [0], 0))
    call = followed(message, call_of(net(), config=replace(CONFIG, workers=1)), "workers")
    assert call["config"] == CONFIG


@pytest.mark.parametrize("workers_asked", [2, 64])
def test_too_few_files_for_the_workers(workers_asked, monkeypatch):
    """The limit that the message names is enough."""
    limits = [300]
    monkeypatch.setattr(workers.resource, "getrlimit", lambda kind: (limits[0], 1 << 20))
    monkeypatch.setattr(workers.os, "listdir", lambda folder: ["open"] * 290)
    message = refusal({"workers": workers_asked, "prefetch": 8}, function=workers._require_files, kind=RuntimeError)
    limits[0] = int(*re.findall(r"ulimit -n (\d+)", message))
    workers._require_files(workers_asked, 8)


class Small(nn.Module):
    """Memory runs out in a backward pass of more than five examples."""

    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, x):
        if torch.is_grad_enabled() and len(x) > 5:
            raise torch.OutOfMemoryError("simulated")
        return self.net(x)


def test_memory_that_runs_out_where_the_loss_compares_examples():
    pair = lambda outputs, targets: (contrast(outputs, targets), len(targets))  # noqa: E731
    call = call_of(Small(), loss=pair)
    refusal(call, "Take a smaller batch_size", kind=torch.OutOfMemoryError)
    call["model"] = Small()
    seen = []
    call["model"].register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    train(**call | {"config": replace(CONFIG, batch_size=4)})
    assert seen[-STEPS:] == [4] * STEPS


def test_memory_that_runs_out():
    """Twice in smaller parts by hand, or once in parts that the run finds."""
    call = call_of(Small())
    for parts in (2, 4):
        message = refusal(call, f"Start again with accumulation={parts}", kind=torch.OutOfMemoryError)
        halving = followed(message, call, "out_of_memory")
        call = followed(message, call | {"model": Small()}, "accumulation")
    for trained in (call, halving | {"model": Small()}):
        train(**trained)
        assert distance(trained["model"].net, hand(net(), X, LABELS)) < 1e-12


def out_of_memory() -> str:
    """What is said when memory runs out on the second of two ranks, which has cut its batch into four."""
    one = State(net(), CONFIG, torch.device("cpu"))
    one.ranks, one.n_micro_batches = Ranks(1, 2), 4
    with pytest.raises(RuntimeError) as error:
        halve_micro_batches(one, RuntimeError("can't allocate memory"), X, LABELS)
    return read(error.value)


def test_memory_that_runs_out_on_a_rank(tmp_path):
    """The run goes on in smaller parts, in its folder."""
    call = call_of(net(), run=tmp_path / "run", config=replace(CONFIG, steps=2, accumulation=4))
    train(**call)
    largest = []
    model = net()
    model.register_forward_pre_hook(lambda module, inputs: largest.append(len(inputs[0])))
    call = followed(out_of_memory(), call | {"model": model}, "accumulation")
    train(**call | {"config": replace(call["config"], steps=STEPS)})
    assert max(largest[-8:]) == 2 and distance(model, hand(net(), X, LABELS)) < 1e-12


class Bank(nn.Module):
    """Adds to its inputs a bank that its third step begins to write to; memory runs out then, of seven examples."""

    def __init__(self, through_data: bool, scarce: bool = True):
        super().__init__()
        self.net, self.through_data, self.scarce, self.batches = net(), through_data, scarce, 0
        self.register_buffer("bank", torch.zeros(N, 4, dtype=torch.float64))

    def forward(self, x):
        outputs = self.net(x + self.bank.mean(0))
        if torch.is_grad_enabled():
            self.batches += 1
            if self.batches > 2:
                (self.bank.data if self.through_data else self.bank).add_(0.1)
                if self.scarce and len(x) > 6:
                    raise torch.OutOfMemoryError("simulated")
        return outputs


def test_memory_that_runs_out_in_a_step_that_cannot_be_undone(monkeypatch):
    """With so many parts from the start it trains; written to as torch counts it, the step is undone."""
    monkeypatch.setattr(guards, "LARGE", 64)
    call = call_of(Bank(through_data=True), config=replace(CONFIG, out_of_memory="halve"))
    message = refusal(call, "Start again with accumulation=2", "write to it under torch.no_grad(), not through .data",
                      kind=torch.OutOfMemoryError)  # fmt: skip
    fine, again = Bank(through_data=True, scarce=False), Bank(through_data=True)
    call = followed(message, call, "accumulation")
    for model in (fine, again):
        train(**call | {"model": model})
    assert distance(again, fine) == 0
    config = replace(CONFIG, out_of_memory="halve")
    assert train(**call_of(Bank(through_data=False), config=config)).steps == STEPS


# ---- trees, orders and streams ---------------------------------------------------------------------------------------


class Around(nn.Module):
    """A net, with a function before it and one after it."""

    def __init__(self, before: Callable = lambda x: x, after: Callable = lambda outputs: outputs):
        super().__init__()
        self.net, self.before, self.after = net(), before, after

    def forward(self, x):
        return self.after(self.net(self.before(x)))


@pytest.mark.parametrize("where", ["examples", "a batch", "outputs"])
def test_a_dataclass_that_torch_does_not_know(where):
    kind = make_dataclass("Both", ["one", "other"])
    first = lambda both: both.one  # noqa: E731
    model, options = Around(first), {}
    if where == "examples":
        options["train_data"] = [(kind(x, x), label) for x, label in zip(X, LABELS, strict=True)]
    elif where == "a batch":
        stacked = lambda pairs: tuple(map(torch.stack, zip(*pairs, strict=True)))  # noqa: E731
        options["collate"] = lambda pairs: (kind(stacked(pairs)[0], stacked(pairs)[0]), stacked(pairs)[1])
    else:
        model = Around(after=lambda outputs: kind(outputs, outputs))
        options["loss"] = lambda outputs, targets: (cross_entropy_sum(outputs.one, targets), len(targets))
    call = call_of(model) | options
    message = refusal(call, "torch.export.register_dataclass(Both)")
    exec(programs(message)[0], {"torch": torch, "Both": kind})
    train(**call | {"config": replace(CONFIG, accumulation=5)})
    assert distance(model.net, hand(net(), X, LABELS)) < 1e-12


def test_a_mask_in_place_of_indices():
    call = call_of(net(), order=lambda step: LABELS == 1, config=replace(CONFIG, batch_size=4))
    (indices,) = re.findall(r"mask\.\S+\(\)", refusal(call, "makes indices of a mask"))
    call["order"] = lambda step: eval(indices, {"mask": LABELS == 1})
    trains_as(hand(net(), X[LABELS == 1], LABELS[LABELS == 1]), call, accumulations=(1, 3))


class Lines(IterableDataset):
    """The examples in order, pass after pass; `position` makes of the next one what is saved."""

    def __init__(self, position: Callable = lambda number: number):
        self.next, self.position = 0, position

    def __iter__(self):
        while self.next < N:
            self.next += 1
            yield X[self.next - 1], LABELS[self.next - 1]
        self.next = 0

    def state_dict(self):
        return {"next": self.position(self.next)}

    def load_state_dict(self, state):
        self.next = int(state["next"])


class Asking(Lines):
    """Its position can be had of a worker only."""

    def state_dict(self, worker):
        return super().state_dict()


def test_workers_for_a_stream():
    call = call_of(net()) | {"train_data": Lines(), "config": replace(CONFIG, workers=2)}
    call = followed(refusal(call, "a stream is read in this process"), call, "workers")
    trains_as(hand(net(), X, LABELS), call)


@pytest.mark.parametrize(
    ("stream", "words"),
    [(Asking(), "called without arguments"), (Lines(np.int64), "numbers, strings, tensors")],
    ids=["an argument", "a number of NumPy"],
)
def test_a_position_that_cannot_be_had(stream, words):
    refusal(call_of(net()) | {"train_data": stream}, words)
    for position in (int, torch.tensor):  # a number, a tensor; and without arguments
        trains_as(hand(net(), X, LABELS), call_of(net()) | {"train_data": Lines(position)})


class Noisy(TensorDataset):
    """What it adds to its examples comes from a generator of its own."""

    generator = None

    def __getitem__(self, i):
        x, y = super().__getitem__(i)
        return x + self.generator.random(), y


def test_examples_whose_draws_nobody_seeds(capsys):
    """Without workers it is said where the lines are; with them each example has the same numbers in every run."""

    def data():
        noisy = Noisy(X, LABELS)
        noisy.generator = np.random.default_rng(0)
        return noisy

    call = call_of(net()) | {"train_data": data()}
    train(**call)
    message = read(capsys.readouterr().out)
    call = followed(message, call | {"train_data": data(), "model": net()}, "workers")
    lines = refusal(call, "what an example draws at random is not keyed by its index")
    models = []
    for workers_asked in (1, 0):
        models.append(net())
        config = replace(CONFIG, workers=workers_asked)
        train(**followed(lines, call | {"model": models[-1], "train_data": data(), "config": config}, program=0))
    assert distance(*models) == 0


def test_the_name_of_a_schedule():
    call = call_of(net(), schedule="linear")
    message = refusal(call, "name one of the config's")
    call = followed(message, call, "schedule") | {"schedule": None}
    assert call["config"].schedule == "cosine" and train(**call).steps == STEPS


# ---- ranks -----------------------------------------------------------------------------------------------------------


def test_a_parameter_that_several_ranks_would_wait_for(monkeypatch):
    """On one of two ranks: frozen it trains, and so it does if it takes part times 0."""
    monkeypatch.setattr(Ranks, "sum", lambda ranks, tensor: tensor)
    two = Ranks(0, 2)

    class Unused(nn.Module):
        def __init__(self, weight: float | None):
            super().__init__()
            self.used, self.unused, self.weight = linear(), nn.Linear(4, 3).double(), weight

        def forward(self, x):
            return self.used(x) if self.weight is None else self.used(x) + self.weight * self.unused(x)

    def step(model):
        from utils.loop.diagnosis import require_every_gradient

        one = State(model, CONFIG, torch.device("cpu"))
        F.cross_entropy(model(X), LABELS).backward()
        one.ranks = two
        require_every_gradient(one)

    with pytest.raises(ValueError, match="gets no gradient") as error:
        step(Unused(None))
    (freeze,) = re.findall(r"requires_grad_\(False\)", read(error.value))
    model = Unused(None)
    eval(f"part.{freeze}", {"part": model.unused})
    step(model)
    step(Unused(0.0))


RANKED = """
import json, os, sys
import torch
from torch.utils.data import TensorDataset
from utils.loop import Config, train

torch.manual_seed(0)
model = torch.nn.Linear(4, 3).double()
x = torch.load(sys.argv[1])
data = TensorDataset(x, torch.arange(12) % 3)
train(model, data, None, Config(steps=4, batch_size=12, optimizer="sgd", momentum=0.0, lr=0.1, device="cpu"))
if os.environ.get("RANK", "0") == "0":  # what two print may stand on one line
    print("weights", json.dumps(model.weight.tolist()))
"""


@pytest.mark.slow
def test_a_script_that_is_started_without_torchrun(tmp_path, monkeypatch, forked_python):
    """As the message says: by torchrun, with its options, on n processes; or alone."""
    message = refusal({"environment": {"RANK": "0", "WORLD_SIZE": "2"}}, "are not set", function=current_ranks)
    (line,) = re.findall(r"torchrun (--\S+ --nproc-per-node=n)", message)
    assert current_ranks({}) is SINGLE_PROCESS
    monkeypatch.setenv(launch.PYTHON, "\n".join(forked_python))
    (tmp_path / "script.py").write_text(RANKED)
    torch.save(X, tmp_path / "x.pt")
    started = []
    popen = launch.subprocess.Popen

    def start(words, **options):
        started.append(words)
        return popen(words, **options)

    monkeypatch.setattr(launch.subprocess, "Popen", start)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    ended = launch.torchrun(tmp_path / "script.py", str(tmp_path / "x.pt"), world=2)
    assert ended.code == 0, ended.output
    assert set(line.replace("=n", "=2").split()) <= set(started[0])
    weights = torch.tensor(eval(re.findall(r"weights (.+)", ended.output)[0]), dtype=torch.float64)
    torch.testing.assert_close(weights, hand(linear(), X, LABELS).weight.detach(), rtol=0, atol=1e-12)


class Tempered(nn.Module):
    """The temperature is in its forward, where several ranks look for what trains."""

    def __init__(self):
        super().__init__()
        self.layer, self.log = linear(), nn.Parameter(torch.zeros(1, dtype=torch.float64))  # FSDP takes none of ()

    def forward(self, x):
        return self.layer(x) / self.log.exp()


def train_tempered(tests: str, parallel: str) -> torch.Tensor:
    sys.path.insert(0, tests)
    module = importlib.import_module("loop.test_advice")  # a script cannot hold its classes
    model = module.Tempered()
    call = module.call_of(model, config=module.replace(module.CONFIG, parallel=parallel))
    module.train(**call)
    return model.log.detach()


@pytest.mark.slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_a_parameter_of_the_loss_on_several_ranks(parallel):
    """In the model's forward, as the message has it."""
    refusal(call_of(linear(), loss=Temperature()), "on several ranks, use it in the model's forward")
    _, log = with_temperature_by_hand()
    for rank in on_ranks(2, train_tempered, str(ROOT / "tests"), parallel, group=False):
        torch.testing.assert_close(rank.result[0], log.detach(), rtol=0, atol=1e-12)


def sum_of_a_global() -> torch.Tensor:
    return X.sum()


def sum_of(x: torch.Tensor) -> torch.Tensor:
    return x.sum()


@pytest.mark.slow
def test_a_tensor_that_a_function_on_ranks_uses():
    refusal({"function": sum_of_a_global}, "or pass it as an argument", function=launch.script_of)
    (ended,) = on_ranks(1, sum_of, X, group=False)
    assert ended.result == X.sum()


def test_a_layer_that_is_frozen_in_shards(monkeypatch):
    """Before train it may be frozen."""
    for name, function in {
        "shard_model": lambda model, ranks, device: copy.deepcopy(model),
        "broadcast_initial_state": lambda model, ranks: None,
        "wrap_ddp": lambda model, ranks, device: model,
    }.items():
        monkeypatch.setattr(state, name, function)

    def frozen(model):
        model[0].requires_grad_(False)
        return sgd(model)

    begin = partial(State, config=replace(CONFIG, parallel="fsdp"), device=torch.device("cpu"), ranks=Ranks(0, 2))
    with pytest.raises(ValueError, match="do so before train, to the model itself") as error:
        begin(net(), optimizer=frozen)
    read(error.value)
    model = net()
    model[0].requires_grad_(False)
    assert len(begin(model, optimizer=frozen).parameters) == 2


# ---- is there advice that no test follows? ---------------------------------------------------------------------------

HOLE = "\0"  # in the place of what a message is filled with
CODE = re.compile(
    r"\n    \S|\w\(\)|\w\(\w+=|[ (]\w+=[^\s=]|\w\.\w+\(|--\w|\b\w+_\("
)  # lines, calls, arguments, options
WORDS = re.compile(r"\b[a-z]{2,}\b")
ELSEWHERE = {  # messages whose advice other tests follow: part of the text, and the test
    "torchrun --max-restarts does this": "distributed/test_ranks.py::test_a_killed_rank_is_started_again_by_torchrun",
    "COURSE_OFFLINE=1": "data/test_download.py::test_course_offline_asks_nobody",
    "Say what of them is x, which the model gets": "loop/test_trees.py::test_rows_of_dicts_train_with_their_masks",
    "[{name: torch.as_tensor(row[name])": "loop/test_trees.py::test_rows_of_dicts_train_with_their_masks",
    "Lists of numbers came as lists of tensors": "loop/test_trees.py::test_lists_of_numbers",
    "and have the model put it back": "loop/test_trees.py::test_one_leaf_that_puts_time_first_is_named_and_the_lines",
    "It is called with x as it is": "loop/test_trees.py::test_a_model_that_takes_the_parts_of_x",
    "which of trees nobody knows": "loop/test_trees.py::test_a_number_of_trees_says_what_to_divide_by",
    "with fsdp a copy of it is trained": "loop/test_trees.py::test_shards_are_of_a_copy_on_which_a_loss_would_look",
    "let on_step return it for each record": "loop/test_selection.py::test_a_missing_number_ends_the_run_with_lines",
    "by which the best is selected": "loop/test_selection.py::test_a_number_that_is_not_finite_ends_the_run_or",
    "begin), with\n": "loop/test_streams.py::test_a_position_that_is_not_what_was_handed_out",
    "A function may begin with a warm-up": "loop/test_schedule.py::test_a_schedule_in_the_config_too_is_refused_with",
    "the loss draws random numbers by": "loop/test_random_losses.py::test_numbers_of_another_stream_for_each_target",
    "make a generator in __getitem__": "loop/test_draws.py::test_a_generator_out_of_sight_is_noticed_by_what_it_does",
    "there is no run folder": "loop/test_interrupt.py::test_the_printed_lines_work_in_the_next_cell",
    "or have them copied": "data/test_workers.py::test_what_cannot_be_sent_to_a_worker_is_told_and_the_lines_send_it",
    "import the dataset and its collate": "data/test_workers.py::test_what_cannot_be_sent_to_a_worker_is_told_and_the",
    "went back to its position": "loop/test_streams.py::test_a_position_that_is_not_what_was_handed_out",
    "import Positioned\n": "loop/test_streams.py::test_a_position_that_leaves_something_out",
    "import PositionedExamples\n    train": "loop/test_streams.py::test_a_position_that_leaves_something_out",
    "current_ranks() says which this is": "loop/test_streams.py::test_batches_that_differ_in_size_between_ranks",
    "Every second, of two, say": "loop/test_streams.py::test_ranks_that_read_the_same_are_refused_with_the_lines",
    "and yields nothing when it is iterated again": "loop/test_streams.py::test_a_stream_that_ends_for_good",
    "which are seeded for each step before it": "loop/test_own_order.py::test_an_order_that_keeps_a_state_is_refused",
    "Of a list of batches": "loop/test_own_order.py::test_what_is_no_function_is_refused_with_the_line_that_makes_one",
    "order is a WeightedRandomSampler": "loop/test_own_order.py::test_what_is_no_function_is_refused_with_the_line",
    "which is made of its batches by": "loop/test_own_order.py::test_what_is_no_function_is_refused_with_the_line",
    "BatchSampler(order, config": "loop/test_own_order.py::test_what_is_no_function_is_refused_with_the_line",
    "train(model, …, config=config…)": "loop/test_own_order.py::test_a_loader_with_weights",
    "torch.utils.data.Subset(": "loop/test_own_order.py::test_a_loader_of_a_part_that_is_held_out",
    ".sampler.weights, ": "loop/test_own_order.py::test_a_loader_with_weights",
    "if their lengths differ, have them padded": "loop/test_first_tries.py::test_texts_of_several_lengths_without",
    "is a DataLoader: pass its dataset": "loop/test_first_tries.py::test_a_dataloader",
}


def texts_of(file: Path) -> Iterator[str]:
    """The strings of a module that are not docstrings, with a HOLE for each value that is filled in."""
    tree = ast.parse(file.read_text())
    nodes = list(ast.walk(tree))
    docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    parts = {
        id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node) if part is not node
    }
    for node in nodes:
        if id(node) in docstrings or id(node) in parts:
            continue
        if isinstance(node, ast.JoinedStr):
            yield "".join(part.value if isinstance(part, ast.Constant) else HOLE for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"{\w*}", HOLE, node.value)


def is_advice_with_code(text: str) -> bool:
    """A sentence with code in it; not one that begins with the value that it complains about: n=3, classes=7: …"""
    sentence = re.sub(rf"^(\w+={HOLE}\W+)+", "", text)
    return bool(CODE.search(sentence)) and len(WORDS.findall(sentence)) > 3


LAUNCHED = (launch._HEAD, launch._TAIL, launch._IN_A_GROUP, launch._ALONE)  # parts of a script, not said to anybody


def unread(folder: Path, messages: list[str]) -> list[str]:
    """The texts with code in them, of the modules in a folder, that no message holds; with the place of each."""
    missing = []
    for file in sorted(folder.glob("*.py")):
        for text in texts_of(file):
            pattern = re.compile(re.escape(text).replace(re.escape(HOLE), ".*"), re.DOTALL)
            if is_advice_with_code(text) and not any(map(pattern.search, [*messages, *LAUNCHED])):
                missing.append(f"{file.parent.name}/{file.name}: {text.replace(HOLE, '…')}")
    return missing


def test_an_unread_message_is_found(tmp_path):
    (tmp_path / "new.py").write_text(
        "def f(n):\n"
        '    """Call g() first."""\n'
        '    raise ValueError(f"n={n}: it must be below ten")\n'
        '    raise ValueError(f"there are {n} of them: start again with size={n}, or wait")\n'
        '    raise ValueError("it has no shape: give it one:\\n    x = x.reshape(3)")\n'
    )
    missing = unread(tmp_path, [])
    assert len(missing) == 2
    assert unread(tmp_path, ["there are 3 of them: start again with size=3, or wait"]) == missing[1:]


def test_each_message_with_code_is_followed_here():
    if not {name for name in globals() if name.startswith("test_")} <= RUN:
        pytest.skip("not all tests of this file have run in this process, and each reads messages")
    missing = [text for name in ("loop", "data", "distributed") for text in unread(ROOT / "utils" / name, advice.READ)]
    missing = [text for text in missing if not any(part in text for part in ELSEWHERE)]
    assert not missing, "make the call that fails with it, and follow it in a test here:\n" + "\n".join(missing)
    for place in ELSEWHERE.values():
        file, test = place.split("::")
        assert f"def {test}" in (ROOT / "tests" / file).read_text(), place
