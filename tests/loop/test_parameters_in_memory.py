"""Wherever a parameter lies in memory, and whatever its numbers are: it trains as by hand, or is refused."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from helpers.by_hand import classes, distance, train_by_hand
from torch import nn

from utils.loop import Config, train
from utils.loop.metrics import cross_entropy_sum
from utils.loop.optim import fills_its_memory

DATA = classes()
RULES = {
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1),
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, weight_decay=0.1),
}


class Matrix(nn.Module):
    """x @ w, with a weight that lies in memory as it is given."""

    def __init__(self, weight):
        super().__init__()
        self.w = nn.Parameter(weight)

    def forward(self, x):
        outputs = x.to(self.w.dtype) @ self.w
        return outputs.real if outputs.is_complex() else outputs


def numbers(*shape: int, dtype=torch.float64) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=dtype)


WEIGHTS = {
    "the left part of a matrix": lambda: numbers(4, 9)[:, :5],
    "every other column": lambda: numbers(4, 10)[:, ::2],
    "a third of a fused projection": lambda: numbers(12, 5).T.chunk(3, dim=1)[1].T,
    "a diagonal band": lambda: numbers(60).as_strided((4, 5), (11, 2)),
    "transposed": lambda: numbers(5, 4).T,
    "complex": lambda: numbers(4, 5, dtype=torch.complex128),
    "a slice of complex numbers": lambda: numbers(4, 9, dtype=torch.complex128)[:, 2:7],
    "one axis of length one": lambda: numbers(4, 5, 1)[:, :, 0],
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("weight", WEIGHTS)
def test_a_weight_trains_as_by_hand_wherever_it_lies(weight, rule):
    ours, theirs = Matrix(WEIGHTS[weight]()), Matrix(WEIGHTS[weight]())
    assert ours.w.stride() == WEIGHTS[weight]().stride()
    config = Config(steps=5, batch_size=12, lr=1e-2, optimizer=rule, weight_decay=0.1, clip=0.1, device="cpu")
    train(ours, DATA, None, config)
    train_by_hand(theirs, DATA, 5, RULES[rule], clip=0.1)
    assert distance(ours, theirs) < 1e-12 < distance(ours, Matrix(WEIGHTS[weight]()))


@pytest.mark.parametrize("rule", RULES)
def test_the_rest_of_the_tensor_stays_as_it_was(rule):
    whole = numbers(4, 9)
    before = whole.clone()
    train(Matrix(whole[:, :5]), DATA, None, Config(steps=3, batch_size=12, optimizer=rule, device="cpu"))
    assert torch.equal(whole[:, 5:], before[:, 5:]) and not torch.equal(whole[:, :5], before[:, :5])


@pytest.mark.parametrize("bad", [1, 3])
@pytest.mark.parametrize("rule", RULES)
def test_a_blocked_step_of_a_slice_leaves_no_trace(rule, bad):
    calls = []

    def loss(outputs, targets):
        calls.extend([1] * outputs.requires_grad)
        return cross_entropy_sum(outputs, targets) * (math.nan if outputs.requires_grad and len(calls) == bad else 1)

    ours, theirs = Matrix(WEIGHTS["every other column"]()), Matrix(WEIGHTS["every other column"]())
    config = Config(steps=5, batch_size=12, lr=1e-2, optimizer=rule, weight_decay=0.1, nonfinite="skip", device="cpu")
    assert train(ours, DATA, None, config, loss=loss).skipped == 1
    train_by_hand(theirs, DATA, 5, RULES[rule], blocked=(bad,))
    assert distance(ours, theirs) < 1e-12


def test_an_average_of_a_slice_and_of_complex_numbers():
    for weight in ("the left part of a matrix", "complex"):
        model, path = Matrix(WEIGHTS[weight]()), []
        average = model.w.detach().clone()
        config = Config(steps=4, batch_size=12, lr=1e-2, ema=0.5, log_every=1, device="cpu")
        result = train(model, DATA, None, config, on_step=lambda _, m, path=path: path.append(m.w.clone()))
        for weights in path:
            average = 0.5 * average + 0.5 * weights
        torch.testing.assert_close(result.ema.w.detach(), average, rtol=0, atol=1e-12)


def test_a_slice_resumes_with_the_same_bits(tmp_path):
    config = {"batch_size": 12, "lr": 1e-2, "device": "cpu"}
    straight, resumed = (Matrix(WEIGHTS["every other column"]()) for _ in range(2))
    train(straight, DATA, None, Config(steps=8, **config))
    train(Matrix(WEIGHTS["every other column"]()), DATA, None, Config(steps=4, **config), run=tmp_path)
    train(resumed, DATA, None, Config(steps=8, **config), run=tmp_path)
    assert torch.equal(straight.w, resumed.w)


@pytest.mark.parametrize(
    "weight",
    [
        lambda: numbers(4, 1).expand(4, 5),
        lambda: numbers(9).as_strided((4, 5), (1, 1)),
        lambda: numbers(1).expand(4, 5),
    ],
    ids=["expanded", "windows that overlap", "one number"],
)
@pytest.mark.parametrize(
    "own", [None, lambda model: torch.optim.SGD(model.parameters(), lr=0.1)], ids=["config", "own"]
)
def test_entries_that_are_one_number_are_refused_with_the_line_that_parts_them(weight, own):
    with pytest.raises(ValueError, match=r"w of the model is .* several entries are one number") as error:
        train(Matrix(weight()), DATA, None, Config(steps=1, batch_size=12, device="cpu"), optimizer=own)
    names = {"torch": torch, "tensor": weight()}
    exec(str(error.value).splitlines()[-1].strip(), names)
    model = Matrix(names["parameter"].detach())
    train(model, DATA, None, Config(steps=1, batch_size=12, device="cpu"), optimizer=own)
    assert len(model.w.unique()) > len(weight().unique())


def test_what_fills_its_memory():
    square = torch.zeros(4, 6)
    dense = [square, square.T, square[1:3], torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last), square[:, :0],
             torch.zeros(()), square[:1, :3], torch.zeros(3, 0)]  # fmt: skip
    gaps = [square[:, :3], square[::2], square[:, 0], square[:1].expand(4, 6), square.diagonal()]
    assert all(map(fills_its_memory, dense)) and not any(map(fills_its_memory, gaps))


@pytest.mark.parametrize("rule", [torch.optim.AdamW, torch.optim.SGD])
def test_a_fused_optimizer_of_ones_own_over_a_slice_is_refused(rule):
    own = lambda model: rule(model.parameters(), lr=0.1, fused=True)  # noqa: E731
    with pytest.raises(ValueError, match=r"overwrites its neighbours.* fused=False"):
        train(Matrix(numbers(4, 9)[:, :5]), DATA, None, Config(steps=1, batch_size=12, device="cpu"), optimizer=own)
    train(Matrix(numbers(4, 5)), DATA, None, Config(steps=1, batch_size=12, device="cpu"), optimizer=own)


class Lookup(nn.Module):
    """A table of rows that is looked up by a function, so that no module says that its gradient is sparse."""

    def __init__(self):
        super().__init__()
        self.rows = nn.Parameter(numbers(7, 5))

    def forward(self, x):
        return F.embedding(x, self.rows, sparse=True)


@pytest.mark.parametrize(
    "own", [None, lambda model: torch.optim.SparseAdam(model.parameters(), lr=1e-3)], ids=["config", "SparseAdam"]
)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_sparse_gradients_are_refused_before_the_first_update(own, precision):
    data = type(DATA)(torch.arange(12) % 7, DATA.y)
    model = Lookup()
    config = Config(steps=2, batch_size=12, precision=precision, device="cpu")
    with pytest.raises(ValueError, match=r"a gradient is sparse.* sparse=False"):
        train(model, data, None, config, optimizer=own)
    assert torch.equal(model.rows, Lookup().rows)


def test_complex_weights_under_a_loss_scaler():
    """They are unscaled as by hand, or refused before anything moves."""
    model = Matrix(WEIGHTS["complex"]())
    with pytest.raises(ValueError, match="complex"):
        train(model, DATA, None, Config(steps=2, batch_size=12, precision="fp16", device="cpu"))
    assert torch.equal(model.w, WEIGHTS["complex"]())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_weights_of_sixteen_bits_are_refused(dtype):
    """1 + 0.001 is 1 in either: an update that small never arrives, and an average moves less still."""
    model = nn.Linear(4, 5).to(dtype)
    data = type(DATA)(DATA.x.to(dtype), DATA.y)
    precision = {torch.float16: "fp16", torch.bfloat16: "bf16"}[dtype]
    with pytest.raises(ValueError, match=f"small updates do not survive.* float32 and set precision='{precision}'"):
        train(model, data, None, Config(steps=2, batch_size=12, device="cpu"))
    own = lambda model: torch.optim.SGD(model.parameters(), lr=0.1)  # noqa: E731
    with pytest.raises(ValueError, match=r"ema is 0\.9, and the model has parameters of 16 bits"):
        train(model, data, None, Config(steps=2, batch_size=12, ema=0.9, device="cpu"), optimizer=own)


def test_a_frozen_half_may_be_of_sixteen_bits():
    """As with adapters on a large model: what trains is in float32."""

    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen = nn.Linear(4, 5).bfloat16().requires_grad_(False)
            self.adapter = nn.Linear(4, 5)

        def forward(self, x):
            return self.frozen(x.bfloat16()).float() + self.adapter(x.float())

    torch.manual_seed(0)
    model = Adapted()
    before = copy.deepcopy(model)
    result = train(model, DATA, None, Config(steps=3, batch_size=12, ema=0.9, device="cpu"))
    assert distance(model.frozen, before.frozen) == 0 < distance(result.ema.adapter, before.adapter)
