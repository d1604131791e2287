"""What trains is what the optimizer was made for: parts that it adds or freezes count, later changes end the run."""

import copy

import pytest
import torch
import torch.nn.functional as F
from helpers.by_hand import classes, distance, train_by_hand
from torch import nn

from utils.loop import Config, state, train

DATA = classes()
LR = 0.1


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 5)).double()


def by_sgd(model):
    return torch.optim.SGD(model.parameters(), lr=LR)


def config(**changes) -> Config:
    plain = {
        "steps": 6,
        "batch_size": 12,
        "lr": LR,
        "optimizer": "sgd",
        "momentum": 0.0,
        "device": "cpu",
        "log_every": 1,
    }
    return Config(**plain | changes)


class Adapter(nn.Module):
    """A frozen layer and a low-rank change to it."""

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, 2, bias=False).to(layer.weight)
        self.up = nn.Linear(2, layer.out_features, bias=False).to(layer.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def with_adapters(model: nn.Module) -> torch.optim.Optimizer:
    torch.manual_seed(1)
    model[0], model[2] = Adapter(model[0]), Adapter(model[2])
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=LR)


def with_frozen_layer(model: nn.Module) -> torch.optim.Optimizer:
    model[0].requires_grad_(False)
    return torch.optim.SGD(model.parameters(), lr=LR)


@pytest.mark.parametrize("make", [with_adapters, with_frozen_layer])
def test_what_the_optimizers_function_does_to_the_model_counts(make):
    """Its gradients are cleared, clipped and in the norm, and it is averaged."""
    ours, theirs, path = net(), net(), []
    result = train(ours, DATA, None, config(ema=0.5, clip=0.2), optimizer=make,
                   on_step=lambda _, model: path.append(copy.deepcopy(model)))  # fmt: skip
    train_by_hand(theirs, DATA, 6, make, clip=0.2)
    assert distance(ours, theirs) < 1e-12 < distance(ours[2], result.ema[2])
    before = net()
    make(before)
    averages = [p.detach().clone() for p in before.parameters()]
    for model in path:
        averages = [0.5 * average + 0.5 * p for average, p in zip(averages, model.parameters(), strict=True)]
    for average, p in zip(averages, result.ema.parameters(), strict=True):
        torch.testing.assert_close(p, average.detach(), rtol=0, atol=1e-12)
    model = before
    F.cross_entropy(model(DATA.x), DATA.y).backward()
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    assert result.history[0]["grad_norm"] == pytest.approx(norm.item(), rel=1e-12)


def test_adapters_that_it_adds_come_back_on_resume(tmp_path):
    straight, resumed = net(), net()
    train(straight, DATA, None, config(), optimizer=with_adapters)
    train(net(), DATA, None, config(steps=3), run=tmp_path, optimizer=with_adapters)
    train(resumed, DATA, None, config(), run=tmp_path, optimizer=with_adapters)
    assert distance(straight, resumed) == 0


def when(step: int, change):
    def look(record, model):
        if record["step"] == step:
            change(model)

    return look


CHANGES = {
    "set free": (lambda model: model[0].requires_grad_(True), r"0\.weight was set free during the run"),
    "frozen": (lambda model: model[2].weight.requires_grad_(False), r"2\.weight was frozen during the run"),
    "swapped": (
        lambda model: (model[0].bias.requires_grad_(True), model[2].bias.requires_grad_(False)),
        r"0\.bias was set free during the run",
    ),
}


@pytest.mark.parametrize("own", [None, by_sgd], ids=["config", "own"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_change_during_the_run_ends_it_before_an_update(change, own):
    function, words = CHANGES[change]
    ours, theirs = net(), net()
    for model in (ours, theirs):
        model[0].requires_grad_(False)
    with pytest.raises(RuntimeError, match=words + r".*\. Call train once for each part"):
        train(ours, DATA, None, config(), optimizer=own, on_step=when(2, function))
    train_by_hand(theirs, DATA, 2, by_sgd)
    assert distance(ours, theirs) < 1e-12


def test_set_free_in_the_forward_ends_the_run_in_the_same_step():
    model = net()
    model[0].requires_grad_(False)
    passes = []

    def free(module, inputs):
        passes.append(torch.is_grad_enabled())
        model[0].requires_grad_(sum(passes) >= 3)

    model.register_forward_pre_hook(free)
    with pytest.raises(RuntimeError, match=r"0\.weight was set free during the run") as error:
        train(model, DATA, None, config(), optimizer=by_sgd)
    assert "in step 3" in error.value.__notes__[0]


def test_two_runs_as_the_message_says_are_one_by_hand():
    ours, theirs = net(), net()
    for model in (ours, theirs):
        model[0].requires_grad_(False)
    train(ours, DATA, None, config(steps=2))
    ours[0].requires_grad_(True)
    train(ours, DATA, None, config(steps=4))
    for free, steps in ((False, 2), (True, 4)):
        theirs[0].requires_grad_(free)
        train_by_hand(theirs, DATA, steps, by_sgd)
    assert distance(ours, theirs) < 1e-12


REPLACEMENTS = {
    "another parameter in its place": lambda model: setattr(model[2], "bias", nn.Parameter(torch.zeros(5).double())),
    "a layer more": lambda model: model.append(nn.Linear(5, 5).double()),
    "a layer less": lambda model: model.pop(2),
}


@pytest.mark.parametrize("kind", REPLACEMENTS)
def test_parameters_that_come_or_go_end_the_run(kind):
    model, passes = net(), []

    def change(module, inputs, outputs):
        passes.append(torch.is_grad_enabled())
        if sum(passes) == 3:
            REPLACEMENTS[kind](model)

    model.register_forward_hook(change)
    with pytest.raises(RuntimeError, match="has come or gone during the run, unknown to the optimizer"):
        train(model, DATA, None, config())
    assert sum(passes) == 3


def test_a_gradient_that_a_frozen_parameter_had_is_cleared_as_by_hand():
    """What was computed before does not reach the optimizer, nor a later backward of the caller's."""
    model = net()
    F.cross_entropy(model(DATA.x), DATA.y).backward()
    model[0].requires_grad_(False)
    train(model, DATA, None, config(), optimizer=by_sgd)
    theirs = net()
    theirs[0].requires_grad_(False)
    train_by_hand(theirs, DATA, 6, by_sgd)
    assert distance(model, theirs) < 1e-12 and model[0].weight.grad is None


def test_a_layer_that_is_frozen_under_fsdp_by_then_is_refused(monkeypatch):
    """Its shards are copies: the model itself would not know."""
    sharded = copy.deepcopy
    monkeypatch.setattr(state, "shard_model", lambda model, ranks, device: sharded(model))
    monkeypatch.setattr(state, "broadcast_initial_state", lambda model, ranks: None)
    monkeypatch.setattr(state, "wrap_ddp", lambda model, ranks, device: model)
    two = state.Ranks(0, 2, 0)
    with pytest.raises(ValueError, match=r"has added, frozen or freed 0\.(bias|weight), of a model that is sharded"):
        state.State(net(), config(parallel="fsdp"), torch.device("cpu"), two, with_frozen_layer)
    state.State(net(), config(parallel="fsdp"), torch.device("cpu"), two, by_sgd)
