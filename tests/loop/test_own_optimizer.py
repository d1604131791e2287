"""An optimizer of the caller's own trains as the loop's own does: same schedule, same resumption, no trace of a bad step."""

import inspect

import numpy as np
import pytest
import torch
from torch import nn

from utils.data import TensorData, spiral
from utils.device import pick_device
from utils.loop import Config, state, train
from utils.loop.guards import Guard
from utils.loop.metrics import cross_entropy_sum

SPIRAL = spiral()
DATA = TensorData(SPIRAL.train.x[:64], SPIRAL.train.y[:64])


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3)).to(pick_device())


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(map(torch.equal, one.state_dict().values(), other.state_dict().values()))


RULES = {
    "SGD, plain": lambda model: torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9),
    "RMSprop": lambda model: torch.optim.RMSprop(model.parameters(), lr=1e-2, momentum=0.9),
    "AdamW, not fused": lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False),
    "AdamW, fused": lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0, fused=True),
    "SGD, fused": lambda model: torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, dampening=0.5, fused=True),
}


def test_the_same_rule_has_the_same_bits():
    config = Config(steps=30, batch_size=24, lr=1e-2, schedule="linear", warmup=0.1, clip=0.1, ema=0.9)
    ours, theirs = net(), net()
    one = train(ours, DATA, None, config)
    two = train(theirs, DATA, None, config, optimizer=RULES["AdamW, fused"])
    assert same(ours, theirs) and same(one.ema, two.ema) and not same(ours, net())
    assert [record["lr"] for record in one.history] == [record["lr"] for record in two.history]


class Poison:
    """Cross-entropy, not a number in the training steps of these numbers."""

    def __init__(self, *steps: int):
        self.steps, self.step = steps, 0

    def __call__(self, outputs, targets):
        self.step += outputs.requires_grad
        bad = outputs.requires_grad and self.step in self.steps
        return cross_entropy_sum(outputs, targets) * (float("nan") if bad else 1.0)


class Whole(TensorData):
    """Whatever is asked for, all of it in one order; but two examples, which `train` tries, are two."""

    def batch(self, indices):
        return super().batch(indices) if len(indices) <= 2 else (self.x, self.y)


@pytest.mark.parametrize("on_host", [True, False])
@pytest.mark.parametrize("bad", [1, 3])
@pytest.mark.parametrize("rule", RULES)
def test_a_blocked_step_leaves_no_trace(rule, bad, on_host, monkeypatch):
    """Most optimizers do not know `found_inf`, and the first step of torch's fused SGD leaves its buffers unset."""
    begin = Guard.__init__

    def beginning(guard, *arguments, **options):
        begin(guard, *arguments, **options)
        guard.on_host = on_host

    monkeypatch.setattr(state.Guard, "__init__", beginning)
    skipped, straight = net(), net()
    for model in (skipped, straight):
        model[2].p = 0.0
    options, data = {"batch_size": 64, "nonfinite": "skip"}, Whole(DATA.x, DATA.y)
    result = train(skipped, data, None, Config(steps=6, **options), loss=Poison(bad), optimizer=RULES[rule])
    train(straight, data, None, Config(steps=5, **options), optimizer=RULES[rule])
    assert result.skipped == 1 and same(skipped, straight)


def test_it_resumes_with_the_same_bits_and_not_with_another(tmp_path):
    config = Config(steps=12, batch_size=24, save_every=4, schedule="cosine", clip=0.5)
    straight, resumed = net(), net()
    train(straight, DATA, None, config, optimizer=RULES["RMSprop"])

    class Stop(Exception):
        pass

    def stop(record, model):
        raise Stop

    with pytest.raises(Stop):
        watched = Config(**{**vars(config), "log_every": 7})
        train(net(), DATA, None, watched, run=tmp_path, optimizer=RULES["RMSprop"], on_step=stop)
    other = lambda model: torch.optim.RMSprop(model.parameters(), lr=3e-2, momentum=0.9)  # noqa: E731
    with pytest.raises(ValueError, match=r"another optimizer \(optimizer: RMSprop .*0\.01.* → RMSprop .*0\.03"):
        train(net(), DATA, None, config, run=tmp_path, optimizer=other)
    turned = lambda model: torch.optim.RMSprop(reversed(list(model.parameters())), lr=1e-2, momentum=0.9)  # noqa: E731
    centred = lambda model: torch.optim.RMSprop(model.parameters(), lr=1e-2, momentum=0.9, centered=True)  # noqa: E731
    for other in (turned, centred):
        with pytest.raises(ValueError, match=r"another optimizer \(optimizer's groups: "):
            train(net(), DATA, None, config, run=tmp_path, optimizer=other)
    train(resumed, DATA, None, config, run=tmp_path, optimizer=RULES["RMSprop"])
    assert same(resumed, straight)


def test_a_setting_that_no_checkpoint_can_hold_is_refused_before_the_first_step():
    with pytest.raises(ValueError, match=r"lr of the optimizer is .*0\.01.*, a float64, which no checkpoint can hold"):
        train(
            net(),
            DATA,
            None,
            Config(steps=1),
            optimizer=lambda model: torch.optim.SGD(model.parameters(), np.float64(0.01)),
        )


class InSingle(torch.optim.Optimizer):
    """Momentum in float32, whatever the weights are."""

    def __init__(self, parameters, lr=0.1):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                kept = self.state[p].setdefault("momentum", torch.zeros_like(p, dtype=torch.float32))
                p -= group["lr"] * kept.mul_(0.9).add_(p.grad)


def test_an_optimizers_state_comes_back_in_its_own_dtype(tmp_path):
    data = TensorData(DATA.x.bfloat16(), DATA.y)
    make = lambda model: InSingle(model.parameters())  # noqa: E731
    straight, resumed = net().bfloat16(), net().bfloat16()
    train(straight, data, None, Config(steps=40, batch_size=24), optimizer=make)
    train(net().bfloat16(), data, None, Config(steps=10, batch_size=24), run=tmp_path, optimizer=make)
    train(resumed, data, None, Config(steps=40, batch_size=24), run=tmp_path, optimizer=make)
    assert same(resumed, straight)


def test_one_optimizer_for_many_runs():
    """Its moments go on from run to run, and its step is not wrapped anew by each."""
    parts, whole = net(), net()
    for model in (parts, whole):
        model[2].p = 0.0
    optimizer = torch.optim.SGD(parts.parameters(), lr=1e-2, momentum=0.9)
    data, depths = Whole(DATA.x, DATA.y), []
    optimizer.register_step_post_hook(lambda *_: depths.append(len(inspect.stack())))
    for _ in range(3):
        train(parts, data, None, Config(steps=2, batch_size=64), optimizer=lambda model: optimizer)
    train(whole, data, None, Config(steps=6, batch_size=64), optimizer=RULES["SGD, plain"])
    assert same(parts, whole) and len(set(depths)) == 1


def test_blocked_steps_are_counted_where_a_device_decides_and_the_run_stops_early(monkeypatch):
    begin = Guard.__init__

    def beginning(guard, *arguments, **options):
        begin(guard, *arguments, **options)
        guard.on_host = False

    monkeypatch.setattr(state.Guard, "__init__", beginning)
    config = Config(steps=200, batch_size=24, lr=10.0, nonfinite="skip", val_every=5, patience=1)
    result = train(net(), DATA, DATA, config, loss=Poison(2))
    assert result.stopped_early and result.steps < 50 and result.skipped == 1
