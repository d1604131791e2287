"""Code of the caller's is told apart by what it computes, and a finished run does not answer for other code."""

import json
import os
import subprocess
import sys
from functools import partial

import pytest
import torch
from helpers.paths import ROOT
from torch import nn
from torch.utils.data import TensorDataset

from utils.loop import Config, train
from utils.loop.code import Code

torch.manual_seed(0)
DATA = TensorDataset(torch.randn(24, 4), torch.randint(5, (24,)))


def build(source: str, name: str = "Net", **values):
    """What a notebook's cell or a file defines under this name, with the torch that it needs."""
    space = {"torch": torch, "nn": nn, "F": nn.functional, **values}
    exec(compile(source, "a cell", "exec"), space)
    return space[name]


NET = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b = nn.Linear(4, 16), nn.Linear(16, 5)

    def forward(self, x):
        hidden = torch.relu(self.a(x))
        return self.b(hidden)
"""
AS_BEFORE = {
    "comments and lines": NET.replace("        return", "\n        # what is left\n\n        return").replace(
        "torch.relu(self.a(x))", "torch.relu(\n            self.a(x)\n        )"
    ),
    "a docstring": NET.replace("(self, x):", '(self, x):\n        """The same."""'),
    "types": NET.replace("(self, x):", "(self, x: torch.Tensor) -> torch.Tensor:"),
    "another name for a local": NET.replace("hidden", "h"),
    "another place in its file": "\n" * 50 + NET,
}
OTHER = {
    "another function": NET.replace("torch.relu", "torch.sin"),
    "a constant": NET.replace("self.b(hidden)", "self.b(hidden) * 2"),
    "a helper": NET.replace("torch.relu", "activation") + "def activation(x):\n    return x.relu().square()\n",
    "an initialisation": NET.replace("manual_seed(1)", "manual_seed(2)"),
}


@pytest.mark.parametrize("how", AS_BEFORE)
def test_code_that_computes_the_same_has_the_same_digest(how):
    assert AS_BEFORE[how] != NET
    assert Code(build(AS_BEFORE[how])()).functions == Code(build(NET)()).functions


@pytest.mark.parametrize("how", OTHER)
def test_a_finished_run_does_not_answer_for_other_code(tmp_path, how, capsys):
    config = Config(steps=12, batch_size=24)
    best = train(build(NET)(), DATA, DATA, config, run=tmp_path).best
    again = train(build(AS_BEFORE["comments and lines"])(), DATA, DATA, config, run=tmp_path)
    assert again.best == best and "finished before: nothing was trained" in capsys.readouterr().out
    with pytest.raises(
        ValueError, match=r"holds a finished run, of something else \(code of the model .*Choose another"
    ):
        train(build(OTHER[how])(), DATA, DATA, config, run=tmp_path)
    train(build(OTHER[how])(), DATA, DATA, Config(steps=13, batch_size=24), run=tmp_path)  # it is no longer one run
    assert "has changed since it was last started (code of the model" in capsys.readouterr().out


def closing_over(act, scale: float):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 5)
            self.calls, self.scale = 0, scale

        def forward(self, x):
            self.calls += 1
            return act(self.a(x)) * self.scale

    return Net()


def objects():
    """{what: a pair that is not the same}."""
    plain = closing_over(torch.relu, 2.0)
    return {
        "a function of torch's in a closure": (plain, closing_over(torch.sin, 2.0)),
        "a function of the caller's in a closure": (
            closing_over(lambda x: x + 1, 2.0),
            closing_over(lambda x: x + 2, 2.0),
        ),
        "a number that a module holds": (plain, closing_over(torch.relu, 3.0)),
        "lambdas": (lambda o, y: (o - y).abs().sum(), lambda o, y: (o - y).square().sum()),
        "a partial": (partial(closing_over, scale=1.0), partial(closing_over, scale=2.0)),
        "a global": (build("K = 1\ndef f(x): return x * K", "f"), build("K = 2\ndef f(x): return x * K", "f")),
        "a class that is called": (
            build("class F:\n    def __call__(self, o, y): return o", "F")(),
            build("class F:\n    def __call__(self, o, y): return y", "F")(),
        ),
        "an operation with a backward of its own": tuple(
            build(
                "class Op(torch.autograd.Function):\n    @staticmethod\n    def forward(c, x): return x\n"
                f"    @staticmethod\n    def backward(c, g): return {g}\ndef f(x): return Op.apply(x)",
                "f",
            )
            for g in ("g", "-g")
        ),
    }


def of(one) -> tuple:
    return Code(one).functions, Code(one).settings


@pytest.mark.parametrize("what", objects())
def test_what_is_told_apart(what):
    one, other = objects()[what]
    assert of(one) == of(objects()[what][0]) != of(other)


def test_what_a_model_changes_itself_is_no_setting():
    model = closing_over(torch.relu, 2.0)
    before = of(model)
    model(torch.zeros(3, 4))
    assert model.calls == 1 and of(model) == before


def test_code_of_torch_s_is_not_looked_into():
    for one in (nn.LSTM(8, 2), nn.functional.mse_loss, nn.CrossEntropyLoss(), torch.optim.SGD, None):
        assert Code(one).functions == {}


SCRIPT = """
from utils.loop.code import Code
print(Code(lambda x: x if x in {"a", "b", "c", "d", "e"} else {"f": 1}[x]).functions)
"""


def test_a_digest_is_the_same_in_every_process():
    """Sets of words have another order in each."""
    said = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1 and "lambda" in said.pop()


def test_a_run_of_a_version_without_digests_is_resumed(tmp_path):
    config = Config(steps=4, batch_size=24)
    train(build(NET)(), DATA, DATA, config, run=tmp_path)
    metadata = json.loads((tmp_path / "run.json").read_text())
    for session in metadata["sessions"]:
        session["inputs"] = {name: text for name, text in session["inputs"].items() if " of the " not in name}
    (tmp_path / "run.json").write_text(json.dumps(metadata))
    assert train(build(OTHER["a constant"])(), DATA, DATA, config, run=tmp_path).steps == 4
