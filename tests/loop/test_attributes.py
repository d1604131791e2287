"""What a forward pass keeps besides buffers comes back on resume, and neither a trial nor a validation moves it."""

import copy
from collections import Counter, deque
from types import SimpleNamespace

import pytest
import torch
from helpers.by_hand import classes, distance, train_by_hand
from torch import nn

from utils.loop import Config, evaluate, train
from utils.loop.attributes import Attributes, attributes_put_back

DATA = classes()


def config(**changes) -> Config:
    plain = {"steps": 6, "batch_size": 12, "lr": 0.1, "optimizer": "sgd", "momentum": 0.0, "device": "cpu"}
    return Config(**plain | changes)


class Meter:
    passes = 0


HOLDERS = {
    "list": lambda: [0],
    "dict": lambda: {"passes": 0},
    "nested": lambda: {"of": [{"passes": 0}]},
    "deque": lambda: deque(maxlen=99),
    "Counter": Counter,
    "object": Meter,
    "namespace": lambda: SimpleNamespace(passes=0),
    "tensor, in place": lambda: torch.zeros(()),
    "tensor in a dict, in place": lambda: {"passes": torch.zeros(())},
    "set at the first pass": lambda: None,
}


class Annealed(nn.Module):
    """Weaker with each forward pass, of which it keeps the number in a holder."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind, self.held = kind, HOLDERS[kind]()

    def count(self) -> float:
        match self.kind:
            case "list":
                self.held[0] += 1
                return self.held[0]
            case "dict" | "Counter":
                self.held["passes"] += 1
                return self.held["passes"]
            case "nested":
                self.held["of"][0]["passes"] += 1
                return self.held["of"][0]["passes"]
            case "deque":
                self.held.append(1)
                return len(self.held)
            case "tensor, in place":
                return self.held.add_(1)
            case "tensor in a dict, in place":
                return self.held["passes"].add_(1)
            case "set at the first pass":
                self.held = self.held or {"passes": 0}
                self.held["passes"] += 1
                return self.held["passes"]
            case _:
                self.held.passes += 1
                return self.held.passes

    def forward(self, x):
        return x / self.count()


def net(kind: str) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(Annealed(kind), nn.Linear(4, 5)).double()


@pytest.mark.parametrize("kind", HOLDERS)
def test_what_is_kept_in_containers_and_objects_comes_back_on_resume(kind, tmp_path):
    straight, resumed = net(kind), net(kind)
    train(straight, DATA, None, config())
    train(net(kind), DATA, None, config(steps=4), run=tmp_path)
    train(resumed, DATA, None, config(), run=tmp_path)
    assert distance(straight, resumed) == 0
    assert type(resumed[0].held) is type(straight[0].held)
    assert getattr(resumed[0].held, "maxlen", None) == getattr(straight[0].held, "maxlen", None)


class Pair(nn.Module):
    """Two layers that count in one dict."""

    def __init__(self):
        super().__init__()
        self.one, self.two = Annealed("dict"), Annealed("dict")
        self.two.held = self.one.held
        self.last = nn.Linear(4, 5)

    def forward(self, x):
        return self.last(self.two(self.one(x)))


def test_what_two_modules_share_they_share_after_a_resume(tmp_path):
    straight, first, resumed = (Pair().double() for _ in range(3))
    for model in (first, resumed):
        model.load_state_dict(straight.state_dict())
    train(straight, DATA, None, config())
    train(first, DATA, None, config(steps=4), run=tmp_path)
    train(resumed, DATA, None, config(), run=tmp_path)
    assert resumed.one.held is resumed.two.held and resumed.one.held == {"passes": 12}
    assert distance(straight, resumed) == 0


class Meters(nn.Module):
    """Counts in an object that holds a generator, and saves the number as torch has it."""

    def __init__(self):
        super().__init__()
        self.held = SimpleNamespace(passes=0, source=(i for i in range(9)))

    def get_extra_state(self):
        return {"passes": self.held.passes}

    def set_extra_state(self, state):
        self.held.passes = state["passes"]

    def forward(self, x):
        self.held.passes += 1
        return x / self.held.passes


def test_what_cannot_be_seen_comes_back_by_the_extra_state_of_its_module(tmp_path):
    def build():
        torch.manual_seed(0)
        return nn.Sequential(Meters(), nn.Linear(4, 5)).double()

    first, resumed = build(), build()
    assert not Attributes(first).values.get("0.held")
    train(first, DATA, None, config(steps=4), run=tmp_path)
    train(resumed, DATA, None, config(), run=tmp_path)
    assert resumed[0].held.passes == first[0].held.passes + 2


class Uncopyable(nn.Module):
    """Holds what cannot be copied."""

    def __init__(self, first: nn.Module):
        super().__init__()
        self.first, self.source = first, (i for i in range(9))

    def forward(self, x):
        return self.first(x)


@pytest.mark.parametrize("kind", HOLDERS)
def test_a_trial_of_a_model_that_cannot_be_copied_leaves_no_trace(kind):
    ours, theirs = (nn.Sequential(Uncopyable(net(kind)[0]), net(kind)[1]) for _ in range(2))
    train(ours, DATA, None, config(), peak_flops=1e12)
    train_by_hand(theirs, DATA, 6, lambda model: torch.optim.SGD(model.parameters(), lr=0.1))
    assert distance(ours, theirs) < 1e-12


@pytest.mark.parametrize("kind", HOLDERS)
def test_validating_more_often_changes_no_weight(kind):
    seldom, often = net(kind), net(kind)
    train(seldom, DATA, DATA, config())
    train(often, DATA, DATA, config(val_every=1))
    assert distance(seldom, often) == 0


def test_the_average_is_validated_with_what_the_model_keeps():
    """As far annealed as the model is: after six passes of training, and the one of the validation."""
    model = net("dict")
    result = train(model, DATA, DATA, config(ema=0.9))
    assert model[0].held == {"passes": 6}
    average = copy.deepcopy(result.ema)
    average[0].held["passes"] = 6
    assert result.history[-1]["val_loss"] == evaluate(average, DATA).loss


class Late(nn.Module):
    """Makes a part of itself in its first pass that trains."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 5)

    def forward(self, x):
        if torch.is_grad_enabled() and not hasattr(self, "late"):
            self.late = nn.Identity()
            self.late.factor = 0.5
        return self.layer(x) * (self.late.factor if hasattr(self, "late") else 0.5)


def test_a_part_that_a_forward_makes_is_made_again(tmp_path):
    def build():
        torch.manual_seed(0)
        return Late().double()

    straight, resumed = build(), build()
    train(straight, DATA, DATA, config(ema=0.9, val_every=2))
    train(build(), DATA, DATA, config(steps=4, ema=0.9, val_every=2), run=tmp_path)
    train(resumed, DATA, DATA, config(ema=0.9, val_every=2), run=tmp_path)
    assert distance(straight, resumed) == 0 and resumed.late.factor == 0.5


def test_what_a_block_adds_changes_or_takes_away_is_put_back():
    model = nn.Linear(2, 2)
    bank, shared = torch.arange(3.0), {"seen": [1, 2]}
    model.bank, model.shared, model.name, model.rate, model.gone = bank, shared, "first", float("nan"), (1, bank)
    before = Attributes(model)
    assert not before.changes()
    with pytest.raises(ZeroDivisionError), attributes_put_back(model):
        bank.add_(1)
        shared["seen"].append(3)
        shared["more"] = 1
        model.name, model.rate, model.new = "second", 2.0, [1]
        del model.gone
        assert set(before.changes()) == {".bank", ".shared", ".name", ".rate", ".new"}
        1 / 0  # noqa: B018
    assert model.bank is bank and bank.tolist() == [0, 1, 2]
    assert model.shared is shared and shared == {"seen": [1, 2]}
    assert (model.name, model.gone[0], hasattr(model, "new")) == ("first", 1, False)
    assert model.rate != model.rate


def test_what_holds_itself_or_a_module_is_left_alone():
    model = nn.Linear(2, 2)
    model.ring, model.parts, model.kind = [], [nn.Linear(2, 2)], nn.Linear
    model.ring.append(model.ring)
    assert not {".ring", ".parts", ".kind"} & Attributes(model).values.keys()
