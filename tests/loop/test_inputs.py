"""A resumed run says what it is given that is not what it was given before."""

import json
import shutil
from functools import partial

import pytest
import torch
from torch import nn

from utils.data import TensorData, spiral
from utils.loop import Config, train
from utils.loop.inputs import changes, name_of, numbers_of
from utils.loop.metrics import UNSAID_LOSS, cross_entropy_sum

SPIRAL = spiral()
X, Y = SPIRAL.train.x[:64], SPIRAL.train.y[:64]
DATA, HELD_OUT = TensorData(X, Y), TensorData(X[:20], Y[:20])
SMOOTH = partial(nn.functional.cross_entropy, reduction="sum", label_smoothing=0.1)


def net(between=nn.ReLU) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 16), between(), nn.Linear(16, 3))


def another_middle() -> TensorData:
    x = X.clone()
    x[32] += 1e-6
    return TensorData(x, Y)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, None),
        ({"train_data": TensorData(X.flip(0), Y.flip(0))}, "training data: "),
        ({"train_data": another_middle()}, "training data: "),
        ({"val_data": TensorData(X[20:40], Y[20:40])}, "validation data: "),
        ({"val_data": None}, " → none"),
        ({"loss": SMOOTH}, "loss: cross_entropy_sum → cross_entropy {'reduction': 'sum', 'label_smoothing': 0.1}"),
        ({"loss": nn.CrossEntropyLoss(reduction="sum")}, "loss: cross_entropy_sum → CrossEntropyLoss {"),
        ({"model": net(nn.GELU)}, "model: (1): ReLU() → (1): GELU(approximate='none')"),
    ],
)
def test_what_has_changed_since_is_said(tmp_path, capsys, change, said):
    """Each of these trains on as if nothing were: the tensors and the sizes are the same."""
    given = {
        "model": net(),
        "train_data": DATA,
        "val_data": HELD_OUT,
        "config": Config(steps=4),
        "loss": cross_entropy_sum,
    }
    train(**given, run=tmp_path)
    assert "has changed" not in capsys.readouterr().out
    now = {**given, "model": net(), **change}
    shutil.copytree(tmp_path, tmp_path / "finished")
    if said and not said.startswith(("training data", " → none", "validation data")):  # it would pass for the new
        with pytest.raises(ValueError, match="a finished run, of something else") as refused:
            train(**now, run=tmp_path / "finished")
        assert said in str(refused.value) and "Choose another folder" in str(refused.value)
    else:
        assert train(**now, run=tmp_path / "finished").steps == 4
        output = capsys.readouterr().out
        assert ("has changed since" in output) == bool(said) and "it goes on" not in output
        assert "resumed at step 4, where it had finished before: nothing was trained" in output
    train(**now | {"config": Config(steps=8)}, run=tmp_path)
    output = capsys.readouterr().out
    assert ("has changed since" in output) == bool(said) and (said or "resumed at step 4") in output
    assert "nothing was trained" not in output
    first, second = (session["inputs"] for session in json.loads((tmp_path / "run.json").read_text())["sessions"])
    assert bool(changes(first, second)) == bool(said)


WEIGHT = torch.tensor([1.0, 2.0, 3.0])


class Weighted(nn.Module):
    """A loss of the caller's own, around one of torch's."""

    def __init__(self, weight):
        super().__init__()
        self.inner = nn.CrossEntropyLoss(weight=weight, reduction="sum")

    def forward(self, outputs, targets):
        return self.inner(outputs, targets), len(targets)


class Plain:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, outputs, targets):
        return nn.functional.cross_entropy(outputs, targets, self.weight, reduction="sum"), len(targets)


def around(weight):
    def loss(outputs, targets):
        return nn.functional.cross_entropy(outputs, targets, weight, reduction="sum"), len(targets)

    return loss


def around_a_module(weight):
    criterion = nn.CrossEntropyLoss(weight, reduction="sum")
    return lambda outputs, targets: (criterion(outputs, targets), len(targets))


def as_default(weight):
    def loss(outputs, targets, weight=weight):
        return nn.functional.cross_entropy(outputs, targets, weight, reduction="sum"), len(targets)

    return loss


def argument(weight):
    return partial(as_default(None), weight=weight)


def positional(weight):
    return partial(lambda weight, outputs, targets: as_default(weight)(outputs, targets), weight)


def in_a_list(weight):
    parts = [{"weight": weight}, weight]
    return lambda outputs, targets: around(parts[0]["weight"])(outputs, targets)


def of_a_helper(weight):
    helper = around(weight)
    return lambda outputs, targets: helper(outputs, targets)


def global_one(outputs, targets):
    return around(WEIGHT)(outputs, targets)


HOLDING = [nn.CrossEntropyLoss, Weighted, Plain, around, around_a_module, as_default, argument, positional, in_a_list]


@pytest.mark.parametrize("make", [*HOLDING, of_a_helper])
def test_other_class_weights_are_said(make, tmp_path, capsys):
    """Three of the same sum and shape: a run that goes on with others is another run, and a finished one is not theirs."""
    model = net()
    for steps, weight, said in ((4, [1.0, 2.0, 3.0], False), (5, [1.0, 2.0, 3.0], False), (6, [3.0, 2.0, 1.0], True)):
        train(net(), DATA, HELD_OUT, Config(steps=steps), run=tmp_path, loss=make(torch.tensor(weight)))
        assert ("has changed since" in capsys.readouterr().out) == said
    with pytest.raises(ValueError, match=r"finished run, of something else .*loss's numbers"):
        train(net(), DATA, HELD_OUT, Config(steps=6), run=tmp_path, loss=make(torch.tensor([2.0, 2.0, 2.0])))
    assert numbers_of(make(torch.tensor([1.0])), model) != numbers_of(make(torch.tensor([2.0])), model)


def test_other_numbers_around_a_function_are_said(monkeypatch, tmp_path, capsys):
    def focal(power):
        def loss(outputs, targets):
            costs = nn.functional.cross_entropy(outputs, targets, reduction="none")
            return (costs * (1 - (-costs).exp()) ** power).sum(), len(targets)

        return loss

    for steps, power, said in ((4, 2.0, False), (5, 2.0, False), (6, 3.0, True)):
        train(net(), DATA, HELD_OUT, Config(steps=steps), run=tmp_path, loss=focal(power))
        output = capsys.readouterr().out
        assert ("loss's numbers: power: 2.0 → power: 3.0" in output) == said
    before = numbers_of(global_one, net())
    monkeypatch.setitem(globals(), "WEIGHT", torch.tensor([3.0, 2.0, 1.0]))
    assert before != numbers_of(global_one, net())


def test_what_is_the_models_or_torchs_is_not_the_losss():
    model, other = net(), net()
    with torch.no_grad():
        other[0].weight.add_(1.0)

    def reading(model):
        weight = model[0].weight
        return lambda outputs, targets: (cross_entropy_sum(outputs, targets) + model[0].bias.sum() + weight.sum(), 1)

    assert numbers_of(reading(model), model) == numbers_of(reading(other), other)
    assert numbers_of(UNSAID_LOSS, model) == numbers_of(cross_entropy_sum, model)
    assert numbers_of(nn.functional.cross_entropy, model) == "none"


def test_what_holds_itself_is_looked_at_once_and_a_large_tensor_here_and_there():
    def loss(outputs, targets):
        return loss(outputs, ring) + large.sum()

    ring, large = [2.0], torch.zeros(3_000_000)
    ring.append(ring)
    before = numbers_of(loss, net())
    large[0] = 1.0
    assert numbers_of(loss, net()) != before


def test_the_name_of_a_loss_does_not_change_from_process_to_process():
    class Counting:
        def __init__(self):
            self.calls = 7

        def __call__(self, outputs, targets):
            return 0

    names = [name_of(loss) for loss in (Counting(), cross_entropy_sum, SMOOTH, nn.MSELoss(reduction="sum"))]
    assert names[0].endswith("Counting") and names[1] == "cross_entropy_sum" and "{'reduction': 'sum'" in names[3]
    assert not any(" at 0x" in name for name in names)


def test_a_run_of_an_earlier_version_is_resumed(tmp_path):
    """Its metadata says nothing of what it was given."""
    train(net(), DATA, HELD_OUT, Config(steps=4), run=tmp_path)
    metadata = json.loads((tmp_path / "run.json").read_text())
    del metadata["sessions"][0]["inputs"], metadata["config"]["compile"]
    (tmp_path / "run.json").write_text(json.dumps(metadata))
    assert train(net(), DATA, HELD_OUT, Config(steps=4), run=tmp_path).steps == 4
