"""Buffers of any size are as they were when a step is undone, and large ones cost nothing where nobody changes them."""

import pytest
import torch
from helpers.deciding_guard import BOTH, decide
from torch import nn

from utils.data import TensorData, spiral
from utils.loop import Config, guards, train
from utils.loop.metrics import cross_entropy_sum

SPIRAL = spiral()
WRITES = ("counted", "through .data", "by a kernel", "replaced")


@pytest.fixture(autouse=True, params=BOTH)
def guard_on(request, monkeypatch):
    """The bank below is large, its counter small. All of this on either."""
    monkeypatch.setattr(guards, "LARGE", 64)
    return decide(request.param, monkeypatch)


class Bank(nn.Module):
    """Its outputs depend on a bank of earlier features, to which it begins to write in its step number `begin`."""

    def __init__(self, how: str = "counted", begin: float = 1, fails_at: float = 0, early: bool = False):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.dropout, self.head = nn.Linear(2, 8), nn.Dropout(0.2), nn.Linear(8, 3)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("bank", torch.zeros(32, 8))
        self.how, self.begin, self.fails_at, self.early = how, begin, fails_at, early

    def forward(self, x):
        if self.training and self.early and self.calls >= self.fails_at - 1:
            self.run_out_of_memory(x)
        features = self.dropout(self.layer(x).tanh())
        outputs = self.head(features + self.bank.mean(0))
        if self.training:
            self.calls += 1
            if self.calls >= self.begin:
                self.write(features.detach().mean(0))
            if self.fails_at and self.calls >= self.fails_at:
                self.run_out_of_memory(x)
        return outputs

    @torch.no_grad()
    def write(self, features):
        if self.how == "counted":
            self.bank[3] += features
        elif self.how == "through .data":
            self.bank.data[3] += features
        elif self.how == "by a kernel":  # BatchNorm's is one that does not tell torch what it writes to
            nn.functional.batch_norm(features.expand(64, -1) + 1, self.bank[3], self.bank[4], training=True)
        else:
            self.bank = self.bank + features

    def run_out_of_memory(self, x):
        if len(x) > 32:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")


class Whole(TensorData):
    def batch(self, indices):
        return super().batch(indices) if len(indices) <= 2 else (self.x, self.y)


DATA = Whole(SPIRAL.train.x[:64], SPIRAL.train.y[:64])


def run(model: Bank, steps: int, bad: int = 0, nonfinite: str = "skip", ema: float = 0.9):
    """Train; the loss of call number `bad` is not finite. Returns the Result."""
    calls = []

    def loss(outputs, targets):
        calls.append(outputs.requires_grad and len(targets) > 4)
        return cross_entropy_sum(outputs, targets) * (float("nan") if calls[-1] and sum(calls) == bad else 1.0)

    config = Config(
        steps=steps, batch_size=64, lr=1e-2, ema=ema, nonfinite=nonfinite, out_of_memory="halve", device="cpu",
        log_every=steps,
    )  # fmt: skip
    return train(model, DATA, None, config, loss=loss)


def assert_same(one: nn.Module, other: nn.Module) -> None:
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


def no_dropout(model: Bank) -> Bank:
    model.dropout.p = 0.0
    return model


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize(("begin", "bad"), [(1, 1), (1, 2), (1, 4), (3, 2), (3, 3), (3, 4), (9, 3)])
def test_a_skipped_step_leaves_no_trace_or_says_so(how, begin, bad, guard_on):
    """A run of six steps of which one is skipped, against one of five. A device is asked at the end only."""
    model, other = (no_dropout(Bank(how, begin)) for _ in range(2))
    uncounted = how in ("through .data", "by a kernel")
    if uncounted and 1 < begin <= (bad if guard_on == "decided on the host" else 6):
        with pytest.raises(
            RuntimeError, match=r"may have left a trace: the buffer bank has changed .* not through \.data"
        ):
            run(model, 6, bad)
        return
    assert run(model, 6, bad).skipped == 1
    run(other, 5)
    assert_same(model, other)
    assert model.calls == 5


@pytest.mark.parametrize("how", WRITES)
@pytest.mark.parametrize("policy", ["raise", "skip"])
@pytest.mark.parametrize(("begin", "fails_at"), [(1, 1), (1, 4), (4, 4), (3, 4), (9, 4)])
def test_a_step_that_ran_out_of_memory_is_repeated_with_the_same_bits_or_not_at_all(how, policy, begin, fails_at):
    """Against a run whose memory runs out before its model has changed anything."""
    model, other = (Bank(how, begin, fails_at, early=early) for early in (False, True))
    late = how in ("through .data", "by a kernel") and begin > 1
    if fails_at >= begin and (late or (policy == "raise" and begin < fails_at)):
        with pytest.raises(RuntimeError, match=r"step 4, which cannot be repeated .*buffer bank.* with accumulation=2"):
            run(model, 6, nonfinite=policy)
        return
    run(model, 6, nonfinite=policy)
    if policy == "raise" and begin < fails_at:
        run(other, 6, nonfinite="skip")  # by its policy nothing is kept to be put back, though nothing need be
    else:
        run(other, 6, nonfinite=policy)
    assert_same(model, other)


@pytest.mark.parametrize("begin", [1, 4, 9])
def test_raise_says_which_buffer_is_not_as_it_was_before_the_step(begin):
    model, other = (no_dropout(Bank(begin=begin)) for _ in range(2))
    with pytest.raises(FloatingPointError) as error:
        run(model, 4, bad=4, nonfinite="raise")
    run(other, 3)
    model.calls.copy_(other.calls)
    gone = "(not so all buffers: the buffer bank, which steps change, is too large" in str(error.value)
    assert gone == (begin == 1)
    if not gone:
        assert_same(model, other)


@pytest.mark.parametrize("policy", ["raise", "skip"])
@pytest.mark.parametrize(("how", "begin"), [("counted", 1), ("through .data", 1), ("counted", 4), ("counted", 99)])
def test_a_large_buffer_is_copied_only_when_it_has_changed(policy, how, begin, monkeypatch):
    """And under "raise" once: a memory bank on which every step writes would have to be copied by every step."""
    copies = []
    monkeypatch.setattr(guards, "copy_into", lambda memory, tensor: copies.append(tensor) or tensor.clone())
    run(Bank(how, begin), 10, nonfinite=policy, ema=0)
    changing = {1: 10, 4: 7, 99: 1}[begin]
    assert len(copies) == (changing if policy == "skip" else 1)


def test_a_look_at_the_model_and_a_validation_are_no_change(monkeypatch):
    copies = []
    monkeypatch.setattr(guards, "copy_into", lambda memory, tensor: copies.append(tensor) or tensor.clone())
    config = Config(steps=6, batch_size=64, log_every=1, val_every=1, nonfinite="skip", device="cpu")

    def look(record, model):
        model(DATA.x)

    train(Bank(begin=99), DATA, DATA, config, on_step=look)
    assert len(copies) == 1


def test_a_buffer_whose_writes_torch_does_not_count_at_all():
    model, other = (no_dropout(Bank(begin=99)) for _ in range(2))
    with torch.inference_mode():
        model.bank = torch.zeros(32, 8)
    assert run(model, 5, bad=2).skipped == 1
    run(other, 4)
    assert_same(model, other)


class Late(nn.Module):
    """It has no buffer until its first forward makes a module that has."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(2, 3)

    def forward(self, x):
        if not hasattr(self, "counter"):
            self.counter = nn.Module()
            self.counter.register_buffer("calls", torch.zeros(()))
        if self.training:
            self.counter.calls += 1
        return self.layer(x)


def test_buffers_that_the_first_forward_makes_are_put_back_in_later_steps():
    model, other = Late(), Late()
    assert run(model, 6, 4, ema=0.0).skipped == 1
    run(other, 5, ema=0.0)
    assert_same(model, other)
