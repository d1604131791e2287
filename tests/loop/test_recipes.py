"""The recipes of the loop's README run as printed, each after the lines that all of them go on from."""

import json
import os
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.paths import ROOT
from torch import nn

from utils.loop.run_folder import best_weights

PAGE = (ROOT / "utils" / "loop" / "README.md").read_text(encoding="utf-8")
BEFORE, _, RECIPES = PAGE.partition("\n## Recipes\n")
SETUP = re.search(r"```python\n(.*?)```", RECIPES, re.DOTALL)[1]
PIECES = dict(
    re.findall(r"^\*\*([^*]+)\*\*[^`]*(?:`[^`\n]+`[^`]*)*\n```python\n(.*?)```", RECIPES, re.DOTALL | re.MULTILINE)
)


class Theirs(nn.Module):
    """Called as a model of Hugging Face is, and answers as one does."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 8), nn.Linear(8, 2)

    def forward(self, input_ids, attention_mask):
        mean = (self.embedding(input_ids) * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True)
        return SimpleNamespace(logits=self.head(mean), loss=None)


class Writer:
    """In the place of tensorboard's, which the course does not install: notes what it is given."""

    scalars = ()

    def __init__(self, folder):
        Writer.scalars = []

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def add_scalar(self, *scalar):
        self.scalars.append(scalar)


def tensorboard_is_complete(names):
    log = [json.loads(line) for line in Path("runs/board/log.jsonl").read_text().splitlines()]
    for name in ("loss", "val_loss"):
        written = [(step, value) for key, value, step in Writer.scalars if key == name]
        assert written == [(record["step"], record[name]) for record in log if name in record] and written


def first_layer_is_frozen(names):
    before, after = best_weights("runs/base"), best_weights("runs/tuned")
    assert torch.equal(before["0.weight"], after["0.weight"]) and not torch.equal(before["2.weight"], after["2.weight"])


def any_batch_size(names):
    loaded = torch.export.load("model.pt2").module()
    x = torch.randn(7, 4)
    assert torch.equal(loaded(x), names["model"](x))


def four_runs(names):
    assert len(list(Path("runs").glob("lr-*/run.json"))) == len(names["scores"]) == 4
    assert max(names["scores"].values()) > 2 * min(names["scores"].values())


CHECKS = {
    "TensorBoard": tensorboard_is_complete,
    "Fine-tune the best weights": first_layer_is_frozen,
    "Export": any_batch_size,
    "Which learning rate?": four_runs,
}


def test_each_recipe_is_run():
    assert len(PIECES) == RECIPES.count("```python") - 1 and PIECES.keys() >= CHECKS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("title", PIECES)
def test_a_recipe_runs(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", types.SimpleNamespace(SummaryWriter=Writer))
    Path("book.txt").write_text("the thin thing thinks that this is the thing. " * 40)
    torch.manual_seed(0)
    names = {"__name__": "__main__", "model": Theirs()}
    names["rows"] = [{"input_ids": torch.tensor([1 + i % 8, i % 3]), "labels": i % 2} for i in range(64)]
    exec(compile(SETUP, "set-up", "exec"), names)
    exec(compile(PIECES[title], title, "exec"), names)
    CHECKS.get(title, lambda names: None)(names)


@pytest.mark.slow
def test_the_loop_runs_from_the_files_that_one_is_told_to_copy(tmp_path):
    """And from no others: the example above the recipes, in a fresh process."""
    table = BEFORE.split("\n## Take it into your project\n")[1]
    copied = [
        word for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE) for word in re.findall(r"`(.+?)`", row)
    ]
    assert "utils/loop/" in copied
    for name in copied:
        copy = shutil.copytree if name.endswith("/") else shutil.copy
        (tmp_path / name).parent.mkdir(exist_ok=True)
        copy(ROOT / name, tmp_path / name)
    (example,) = re.findall(r"```python\n(.*?)```", BEFORE, re.DOTALL)
    code = f"{example}\nimport utils.loop.log; print(utils.loop.log.__file__)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    line = [sys.executable, "-c", code]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown, file = done.stdout.splitlines()
    losses = json.loads(shown)
    assert Path(file).is_relative_to(tmp_path) and losses[-1] < losses[0] / 10
