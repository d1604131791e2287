"""What optimizers do beyond a step: two modes, closures, rates in tensors, numbers outside their state."""

import importlib
import json
import sys

import pytest
import torch
import torch.nn.functional as F
from helpers.by_hand import classes, distance, train_by_hand
from helpers.paths import ROOT
from helpers.schedule_free import ScheduleFree
from torch import nn

from utils.distributed.launch import on_ranks
from utils.loop import Config, train
from utils.loop.run_folder import best_weights

DATA = classes()


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 5)).double()


def config(**changes) -> Config:
    return Config(**{"steps": 12, "batch_size": 12, "device": "cpu"} | changes)


# ---- two modes -------------------------------------------------------------------------------------------------------


def schedule_free(model):
    return ScheduleFree(model.parameters())


def x_by_hand(steps: int) -> nn.Module:
    model = net()

    def make(model):
        optimizer = schedule_free(model)
        optimizer.train()
        return optimizer

    train_by_hand(model, DATA, steps, make).eval()
    return model


def loss_of(model: nn.Module) -> float:
    with torch.no_grad():
        return F.cross_entropy(model(DATA.x), DATA.y).item()


def test_weights_of_its_eval_mode_are_validated_looked_at_saved_and_kept(tmp_path):
    seen = []
    look = lambda record, model: seen.append((record["step"], loss_of(model)))  # noqa: E731
    model = net()
    options = {"optimizer": schedule_free, "on_step": look}
    result = train(model, DATA, DATA, config(val_every=4, log_every=6, save_every=5), run=tmp_path, **options)
    for record in result.history:
        if "val_loss" in record:
            assert record["val_loss"] == pytest.approx(loss_of(x_by_hand(record["step"])), abs=1e-12)
    assert seen == [(step, pytest.approx(loss_of(x_by_hand(step)), abs=1e-12)) for step in (4, 6, 8, 12, 12)]
    assert distance(model, x_by_hand(12)) < 1e-12
    best = net()
    best.load_state_dict(best_weights(tmp_path))
    assert distance(best, x_by_hand(result.best["step"])) < 1e-12
    without_folder = train(net(), DATA, DATA, config(), optimizer=schedule_free)
    best.load_state_dict(without_folder.best_weights)
    assert distance(best, x_by_hand(12)) < 1e-12


def test_watching_more_often_changes_no_bit_though_both_modes_round(tmp_path):
    one, two = net(), net()
    train(one, DATA, DATA, config(), optimizer=schedule_free)
    often = config(val_every=1, log_every=1, save_every=1)
    train(two, DATA, DATA, often, run=tmp_path, optimizer=schedule_free, on_step=lambda record, model: None)
    assert distance(one, two) == 0


def test_it_resumes_with_the_same_bits(tmp_path):
    straight, resumed = net(), net()
    train(straight, DATA, None, config(), optimizer=schedule_free)
    train(net(), DATA, None, config(steps=5), run=tmp_path, optimizer=schedule_free)
    train(resumed, DATA, None, config(), run=tmp_path, optimizer=schedule_free)
    assert distance(straight, resumed) == 0
    again = net()
    train(again, DATA, None, config(), run=tmp_path, optimizer=schedule_free)  # finished: nothing is trained
    assert distance(straight, again) == 0


def test_a_stop_by_patience_leaves_the_weights_to_evaluate():
    model = net()
    result = train(model, DATA, DATA, config(val_every=2, patience=1, min_delta=9.0), optimizer=schedule_free)
    assert result.stopped_early and result.steps == 4 and distance(model, x_by_hand(4)) < 1e-12


def resume_on_a_rank(tests: str, folder: str) -> tuple[float, float]:
    """How far a resumed run in shards ends from a straight one, and its training loss."""
    sys.path.insert(0, tests)
    module = importlib.import_module("loop.test_optimizer_protocol")  # a script cannot hold its classes
    straight, resumed = module.net(), module.net()
    make, fsdp = module.schedule_free, {"parallel": "fsdp"}
    module.train(straight, module.DATA, module.DATA, module.config(val_every=2, **fsdp), optimizer=make)
    module.train(module.net(), module.DATA, None, module.config(steps=5, **fsdp), optimizer=make, run=folder)
    module.train(resumed, module.DATA, None, module.config(**fsdp), optimizer=make, run=folder)
    return module.distance(straight, resumed), module.loss_of(resumed)


def test_it_resumes_with_the_same_bits_where_two_ranks_hold_it_in_shards(tmp_path):
    for rank in on_ranks(2, resume_on_a_rank, str(ROOT / "tests"), str(tmp_path / "run"), group=False):
        assert rank.result == (0.0, pytest.approx(loss_of(x_by_hand(12)), abs=1e-12))


# ---- tensors that a checkpoint lacks -----------------------------------------------------------------------------------


class Lookahead(torch.optim.Optimizer):
    """Every third step, half-way back towards where it was three steps before; it keeps that place as it is told."""

    def __init__(self, parameters, keep="attribute"):
        super().__init__(parameters, {"lr": 0.1})
        self.keep, self.steps = keep, 0
        slow = {p: p.detach().clone() for group in self.param_groups for p in group["params"]}
        if keep == "attribute":
            self.slow = list(slow.values())
        if keep == "nested":
            self.book = {"slow": [{"weights": place} for place in slow.values()]}
        if keep == "inner":
            self.inner = torch.optim.SGD(slow, lr=0.1)
            for p, place in slow.items():
                self.inner.state[p]["slow"] = place
        for p in slow if keep == "state" else ():
            self.state[p]["slow"], self.state[p]["steps"] = slow[p], 0

    @torch.no_grad()
    def step(self):
        for p in self.param_groups[0]["params"]:
            p -= 0.1 * p.grad
            if self.keep == "state":
                self.state[p]["steps"] += 1
                if self.state[p]["steps"] % 3 == 0:
                    p.copy_(self.state[p]["slow"].lerp_(p, 0.5))


@pytest.mark.parametrize(("keep", "name"), [("attribute", "slow"), ("nested", "book"), ("inner", "inner")])
def test_tensors_that_a_checkpoint_would_lack_are_refused_where_there_is_one(keep, name, tmp_path):
    make = lambda model: Lookahead(model.parameters(), keep)  # noqa: E731
    with pytest.raises(ValueError, match=rf"the optimizer keeps tensors in {name}, which its state_dict\(\) lacks"):
        train(net(), DATA, None, config(), run=tmp_path / "run", optimizer=make)
    assert not (tmp_path / "run").exists()
    train(net(), DATA, None, config(steps=2), optimizer=make)


def test_kept_in_its_state_as_the_message_says_they_resume_with_the_same_bits(tmp_path):
    make = lambda model: Lookahead(model.parameters(), "state")  # noqa: E731
    straight, resumed = net(), net()
    train(straight, DATA, None, config(), optimizer=make)
    train(net(), DATA, None, config(steps=5), run=tmp_path, optimizer=make)
    train(resumed, DATA, None, config(), run=tmp_path, optimizer=make)
    assert distance(straight, resumed) == 0


class Late(torch.optim.SGD):
    """Makes a tensor of its own in its first step."""

    def step(self):
        super().step()
        self.average = [p.clone() for group in self.param_groups for p in group["params"]]


def test_tensors_that_come_with_the_first_step_are_refused_at_the_first_save(tmp_path):
    make = lambda model: Late(model.parameters(), lr=0.1)  # noqa: E731
    with pytest.raises(ValueError, match="keeps tensors in average"):
        train(net(), DATA, None, config(save_every=1), run=tmp_path, optimizer=make)


class Both(torch.optim.Optimizer):
    """SGD for matrices and AdamW for the rest in one, which saves the state of both."""

    def __init__(self, model):
        matrices = [p for p in model.parameters() if p.ndim == 2]
        others = [p for p in model.parameters() if p.ndim != 2]
        self.parts = [torch.optim.SGD(matrices, lr=0.1, momentum=0.9), torch.optim.AdamW(others, lr=0.01)]
        super().__init__([{"params": matrices}, {"params": others}], {"lr": 0.1})

    def step(self):
        for part in self.parts:
            part.step()

    def state_dict(self):
        return super().state_dict() | {"parts": [part.state_dict() for part in self.parts]}

    def load_state_dict(self, saved):
        for part, state in zip(self.parts, saved["parts"], strict=True):
            part.load_state_dict(state)
        super().load_state_dict({name: value for name, value in saved.items() if name != "parts"})


def test_an_optimizer_of_two_that_saves_both_resumes_with_the_same_bits(tmp_path):
    straight, resumed = net(), net()
    train(straight, DATA, None, config(), optimizer=Both)
    train(net(), DATA, None, config(steps=5), run=tmp_path, optimizer=Both)
    train(resumed, DATA, None, config(), run=tmp_path, optimizer=Both)
    assert distance(straight, resumed) == 0


# ---- closures ----------------------------------------------------------------------------------------------------------


class Sharpness(torch.optim.Optimizer):
    """Climbs first, then steps from there; `how` it lets that be known."""

    def __init__(self, parameters, how):
        super().__init__(parameters, {"lr": 0.1})
        if how == "methods":
            self.first_step = self.second_step = lambda zero_grad=False: None

    def step(self, closure=None):
        assert closure is not None, "Sharpness Aware Minimization requires closure, but it was not provided"


@pytest.mark.parametrize(
    "make",
    [
        lambda model: torch.optim.LBFGS(model.parameters(), lr=0.1),
        lambda model: Sharpness(model.parameters(), "methods"),
        lambda model: Sharpness(model.parameters(), "assertion"),
    ],
    ids=["LBFGS", "SAM by its methods", "SAM by its error"],
)
def test_a_step_that_wants_a_closure_is_refused_before_an_update(make):
    model = net()
    with pytest.raises(ValueError, match=r"wants a closure.* AdamW say, or write the loop by hand"):
        train(model, DATA, None, config(), optimizer=make)
    assert distance(model, net()) == 0


# ---- rates in tensors --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [torch.optim.AdamW, torch.optim.SGD])
def test_a_rate_in_a_tensor_is_logged_as_a_number_scheduled_and_resumed(rule, tmp_path):
    tensor = lambda model: rule(model.parameters(), lr=torch.tensor(0.25))  # noqa: E731
    number = lambda model: rule(model.parameters(), lr=0.25)  # noqa: E731
    settings = {"schedule": "linear", "warmup": 2, "log_every": 1}
    ours, theirs, resumed = net(), net(), net()
    one = train(ours, DATA, None, config(**settings), optimizer=tensor)
    two = train(theirs, DATA, None, config(**settings), optimizer=number)
    assert [r["lr"] for r in one.history] == pytest.approx([r["lr"] for r in two.history]) and json.dumps(one.history)
    assert distance(ours, theirs) < 1e-5  # a rate in float32
    with pytest.raises(ZeroDivisionError):
        train(net(), DATA, None, config(save_every=5, **settings), run=tmp_path, optimizer=tensor, on_step=stop_at(7))
    train(resumed, DATA, None, config(save_every=5, **settings), run=tmp_path, optimizer=tensor)
    assert distance(ours, resumed) == 0


def stop_at(step: int):
    return lambda record, model: {"nothing": 1 / (step - record["step"])}
