"""A resumed run says what it is given that is not what it was given before."""

import json
import shutil
from functools import partial

import pytest
import torch
from torch import nn

from utils.data import TensorData, spiral
from utils.loop import Config, train
from utils.loop.inputs import changes, name_of
from utils.loop.metrics import cross_entropy_sum

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
