"""What is run before the first step leaves no trace: a model that its forward changes trains as by hand, or is refused."""

import importlib
import random
import sys
from collections import deque

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.by_hand import WholeBatch, classes, distance, train_by_hand
from helpers.paths import ROOT
from torch import nn

from utils.device import rng_state
from utils.distributed.launch import on_ranks
from utils.loop import Config, evaluate, train
from utils.loop.guards import without_a_trace
from utils.loop.metrics import cross_entropy_sum

DATA = classes()
TESTS = ROOT / "tests"
LR = 0.1


class ActNorm(nn.Module):
    """Takes its shift and its scale from the first batch."""

    def __init__(self, buffer: bool = False):
        super().__init__()
        self.mu, self.sd = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.ones(4))
        if buffer:
            self.register_buffer("done", torch.tensor(0.0))
        else:
            self.done = False

    def forward(self, x):
        if not self.done:
            self.mu.data.copy_(x.mean(0))
            self.sd.data.copy_(x.std(0))
            self.done = self.done + 1 if isinstance(self.done, torch.Tensor) else True
        return (x - self.mu) / self.sd


class Annealed(nn.Module):
    """Noise-free, but weaker with each forward pass; it counts in an attribute, a list, or an object of its own."""

    def __init__(self, where: str):
        super().__init__()
        self.where, self.passes, self.seen, self.last, self.meter = where, 0, [], deque(maxlen=9), Meter()

    def forward(self, x):
        self.passes += 1
        self.seen.append(len(x))
        self.last.append(x.detach())
        self.meter.passes += 1
        passes = {
            "attribute": self.passes,
            "list": len(self.seen),
            "deque": len(self.last),
            "object": self.meter.passes,
        }
        return x / passes[self.where]


class Meter:
    passes = 0


class Recurrent(nn.Module):
    """Goes on from the state in which the batch before has left it."""

    def __init__(self):
        super().__init__()
        self.rnn, self.state = nn.LSTM(4, 4, batch_first=True), None

    def forward(self, x):
        outputs, state = self.rnn(x[:, None], self.state)
        self.state = tuple(part.detach() for part in state)
        return outputs[:, 0]


class Smoothed(nn.Module):
    """Pulls its own weight towards the mean of its inputs, in each pass that trains or does not."""

    def __init__(self):
        super().__init__()
        self.centre = nn.Parameter(torch.zeros(4), requires_grad=False)

    def forward(self, x):
        with torch.no_grad():
            self.centre.lerp_(x.mean(0), 0.1)
        return x - self.centre


class Noisy(nn.Module):
    """Draws from the streams of NumPy and Python."""

    def forward(self, x):
        return x * np.random.rand() + random.random()  # noqa: NPY002


class Remembering(nn.Module):
    """Grows a cache to the size of what it sees, and holds a bound method and a reference to a module outside its tree."""

    def __init__(self):
        super().__init__()
        self.layer, self.cache, self.passes = nn.Linear(4, 4), None, 0
        self.hidden = [self.layer]
        self.call = self.apply_layer

    def apply_layer(self, x):
        self.passes += 1
        return self.hidden[0](x) / self.passes

    def forward(self, x):
        if self.cache is None:
            self.cache = torch.ones(len(x), 1, dtype=x.dtype)
        return self.call(x) * self.cache


MOVED_BY_FORWARD = {
    "ActNorm": ActNorm,
    "ActNorm, flag in a buffer": lambda: ActNorm(buffer=True),
    "counter in an attribute": lambda: Annealed("attribute"),
    "counter in a list": lambda: Annealed("list"),
    "counter in a deque": lambda: Annealed("deque"),
    "counter in an object": lambda: Annealed("object"),
    "recurrent state": Recurrent,
    "a weight that its forward moves": lambda: nn.Sequential(nn.Linear(4, 4), Smoothed()),
    "cache and bound method": Remembering,
    "weight_norm of old": lambda: torch.nn.utils.weight_norm(nn.Linear(4, 4)),
    "spectral norm": lambda: torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4)),
}


def net(first) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(first(), nn.Linear(4, 5)).double()


def by_sgd(model):
    return torch.optim.SGD(model.parameters(), lr=LR)


def config(**changes) -> Config:
    plain = {"steps": 3, "batch_size": 12, "lr": LR, "optimizer": "sgd", "momentum": 0.0, "device": "cpu"}
    return Config(**plain | changes)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("counted", [False, True], ids=["", "FLOPs counted"])
@pytest.mark.parametrize("kind", [kind for kind in MOVED_BY_FORWARD if kind != "a weight that its forward moves"])
def test_a_forward_that_changes_its_model_trains_as_by_hand(kind, counted):
    ours, theirs = net(MOVED_BY_FORWARD[kind]), net(MOVED_BY_FORWARD[kind])
    train(ours, DATA, None, config(), peak_flops=1e12 if counted else 0.0)
    train_by_hand(theirs, DATA, 3, by_sgd)
    assert distance(ours, theirs) < 1e-12


@pytest.mark.parametrize("drawn", [Noisy])
def test_the_streams_of_numpy_and_python_have_not_moved(drawn):
    ours, theirs = net(drawn), net(drawn)
    train(ours, DATA, DATA, config(seed=3), peak_flops=1e12)
    np.random.seed(3)  # noqa: NPY002
    random.seed(3)
    train_by_hand(theirs, DATA, 3, by_sgd)
    assert distance(ours, theirs) < 1e-12


def test_validation_data_are_tried_without_a_trace_too():
    ours, theirs = net(Recurrent), net(Recurrent)
    single = WholeBatch(DATA.x[:1], DATA.y[:1])
    with pytest.raises(RuntimeError, match="hidden"):  # at the end, as by hand: the state is of 12 examples
        train(ours, DATA, single, config())
    train_by_hand(theirs, DATA, 3, by_sgd)
    assert distance(ours, theirs) < 1e-12


class OneAtATime(nn.BatchNorm1d):
    """Takes single examples, and so takes part in a trial of one; it counts its passes."""

    passes = 0

    def forward(self, x):
        self.passes += 1
        return x / self.passes


def test_a_trial_of_one_example_leaves_no_trace():
    data = WholeBatch(DATA.x[:1], DATA.y[:1])
    ours, theirs = net(lambda: OneAtATime(4)), net(lambda: OneAtATime(4))
    train(ours, data, None, config(batch_size=1))
    train_by_hand(theirs, data, 3, by_sgd)
    assert distance(ours, theirs) < 1e-12 and ours[0].passes == theirs[0].passes == 3


@pytest.mark.parametrize("kind", ["ActNorm", "counter in an attribute", "recurrent state", "cache and bound method"])
def test_what_a_forward_keeps_in_numbers_and_tensors_comes_back_on_resume(kind, tmp_path):
    straight, resumed = net(MOVED_BY_FORWARD[kind]), net(MOVED_BY_FORWARD[kind])
    train(straight, DATA, None, config(steps=6))
    train(net(MOVED_BY_FORWARD[kind]), DATA, None, config(steps=4), run=tmp_path)
    train(resumed, DATA, None, config(steps=6), run=tmp_path)
    assert distance(straight, resumed) == 0


class Experts(nn.Module):
    """Leaves a term of the loss on itself, for the loss to look up."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 5)

    def forward(self, x):
        outputs = self.layer(x)
        self.balance = outputs.square().sum()
        return outputs


@pytest.mark.parametrize("outer", [False, True], ids=["the model", "a part of it"])
def test_a_loss_may_look_up_what_the_forward_has_left_on_the_model(outer):
    torch.manual_seed(0)
    inner = Experts().double()
    model = nn.Sequential(inner) if outer else inner
    first = inner.layer.weight.clone()
    weight = inner.layer.weight

    def loss(outputs, targets):
        penalty = inner.balance + 0.1 * weight.square().sum()  # once for a batch, whatever its size
        return cross_entropy_sum(outputs, targets) + penalty, len(targets)

    train(model, DATA, None, config(), loss=loss)
    assert not torch.equal(inner.layer.weight, first) and inner.layer.weight is weight


class Uncopyable(nn.Module):
    """Holds what cannot be copied."""

    def __init__(self, first):
        super().__init__()
        self.first, self.source, self.passes = first, (i for i in range(9)), 0

    def forward(self, x):
        self.passes += 1
        return self.first(x) / self.passes


def test_a_model_that_cannot_be_copied_keeps_its_attributes_and_buffers():
    first = lambda: Uncopyable(nn.BatchNorm1d(4))  # noqa: E731
    ours, theirs = net(first), net(first)
    train(ours, DATA, None, config(), peak_flops=1e12)
    train_by_hand(theirs, DATA, 3, by_sgd)
    assert distance(ours, theirs) < 1e-12


@pytest.mark.parametrize("first", [lambda: Uncopyable(ActNorm()), Smoothed], ids=["uncopyable", "frozen"])
def test_a_trial_that_has_changed_a_weight_is_refused(first, tmp_path):
    """Where it is no copy: of a model that cannot be copied, and a frozen weight, of which a large model may have much."""
    with pytest.raises(ValueError, match=r"the model's forward changes 0\.(first\.mu|centre), a parameter"):
        train(net(first), DATA, None, config(), run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_called_once_before_as_the_message_says_it_trains():
    ours, theirs = net(lambda: Uncopyable(ActNorm())), net(lambda: Uncopyable(ActNorm()))
    for model in (ours, theirs):
        model(DATA.x)
    train(ours, DATA, None, config())
    train_by_hand(theirs, DATA, 3, by_sgd)
    assert distance(ours, theirs) < 1e-12


def test_a_model_is_itself_again_whatever_happens_in_the_block():
    model = net(lambda: Annealed("list"))
    held = [(module, vars(module), dict(vars(module))) for module in model.modules()]
    streams = str(rng_state())
    with pytest.raises(ZeroDivisionError), without_a_trace(model):
        torch.rand(3)
        F.cross_entropy(model(DATA.x), DATA.y).backward()
        assert model[1].weight.grad is not None and model[0].passes == 1
        model[0].new = 1
        1 / 0  # noqa: B018
    assert all(vars(module) is own and dict(own) == before for module, own, before in held)
    assert str(rng_state()) == streams and all(p.grad is None for p in model.parameters())


OF_TORCHSCRIPT = pytest.mark.filterwarnings("ignore:`torch.jit")  # the kind of warning depends on torch's version


def normed() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 5))


@OF_TORCHSCRIPT
def test_a_scripted_model_trains_as_the_module_it_was_made_of():
    data = WholeBatch(DATA.x.float(), DATA.y)
    scripted, plain = torch.jit.script(normed()), normed()
    for model in (scripted, plain):
        train(model, data, None, config(steps=20), peak_flops=1e12)
    assert evaluate(scripted, data).loss == pytest.approx(evaluate(plain, data).loss, rel=1e-5)
    assert evaluate(plain, data).loss < 0.9 * evaluate(normed(), data).loss


@OF_TORCHSCRIPT
def test_what_torchscript_cannot_do_is_refused_by_its_name():
    data = WholeBatch(DATA.x.float(), DATA.y)
    with pytest.raises(
        ValueError, match=r"the model is traced, .* pass the module that was traced, and trace it after"
    ):
        train(torch.jit.trace(normed().eval(), data.x), data, None, config(steps=2))
    averaged = config(steps=20, ema=0.9)
    with pytest.raises(ValueError, match=r"ema is 0\.9, .* pass the module that was scripted, and script it after"):
        train(torch.jit.script(normed()), data, None, averaged)
    model = normed()
    average = train(model, data, None, averaged).ema
    for form in (torch.jit.script(average), torch.jit.trace(average.eval(), data.x)):
        torch.testing.assert_close(form(data.x), average(data.x))


# ---- on two ranks ----------------------------------------------------------------------------------------------------


class Unused(nn.Module):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(4, 4)

    def forward(self, x):
        return x


class Dropped(nn.Module):
    """A layer that is left out in the third pass, the last: torch itself would tell in the one after it."""

    def __init__(self):
        super().__init__()
        self.layer, self.passes = nn.Linear(4, 4), 0

    def forward(self, x):
        self.passes += 1
        return self.layer(x) if self.passes < 3 else x


class EverySecond(nn.Module):
    """A layer that is left out in every second pass, and so in the last micro-batch of two."""

    def __init__(self):
        super().__init__()
        self.layer, self.passes = nn.Linear(4, 4), 0

    def forward(self, x):
        self.passes += 1
        return self.layer(x) if self.passes % 2 else x


RANKED = {
    "counter": lambda: net(lambda: Annealed("attribute")),
    "ActNorm": lambda: net(ActNorm),
    "unused": lambda: net(Unused),
    "dropped": lambda: net(Dropped),
    "every second": lambda: net(EverySecond),
}


def train_on_a_rank(tests: str, kind: str, parallel: str) -> list:
    """The weights that a rank ends with, or the error that it ends with."""
    sys.path.insert(0, tests)
    module = importlib.import_module("loop.test_trial")  # a script cannot hold its classes
    model = module.RANKED[kind]()
    try:
        accumulation = 2 if kind == "every second" else 1
        module.train(model, module.DATA, None, module.config(parallel=parallel, accumulation=accumulation))
    except (ValueError, RuntimeError) as error:
        return [str(error)]
    return [tensor.detach() for tensor in model.parameters()]


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_on_two_ranks_a_counter_is_as_by_hand(parallel):
    """Each rank has the whole batch: their loss is the same mean."""
    theirs = RANKED["counter"]()
    train_by_hand(theirs, DATA, 3, by_sgd)
    for rank in on_ranks(2, train_on_a_rank, str(TESTS), "counter", parallel, group=False):
        for mine, other in zip(rank.result, theirs.parameters(), strict=True):
            torch.testing.assert_close(mine, other.detach(), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("ActNorm", "the model's forward changes 0.mu, a parameter"),
        ("every second", "a parameter gets no gradient, and several ranks would wait for it: freeze it by"),
        ("unused", "0.spare.weight of the model gets no gradient, and several ranks would wait for it: freeze it by"),
        ("dropped", "0.layer.weight of the model gets no gradient, and several ranks would wait for it: freeze it by"),
    ],
)
def test_what_two_ranks_cannot_do_is_said_on_each(kind, words):
    for rank in on_ranks(2, train_on_a_rank, str(TESTS), kind, "ddp", group=False):
        assert words in rank.result[0] and "find_unused_parameters" not in rank.result[0]
