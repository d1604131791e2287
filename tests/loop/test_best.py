"""Best weights are written with a checkpoint that knows of them, alone and no more often; no accident mixes them up."""

import os
import shutil

import pytest
import torch
from helpers.resumable_run import Noisy, outcome, same
from torch import nn

from utils.loop import Config, checkpoint, evaluate, train
from utils.loop.run_folder import best_weights
from utils.loop.saved_run import read_run

CONFIG = Config(steps=20, batch_size=16, seed=3, lr=3e-3, ema=0.5, log_every=2, val_every=1, save_every=6)


class Killed(BaseException):
    """Ends a run as a kill does: nothing is saved on the way out."""


def build() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))


def run(folder=None, config: Config = CONFIG, model: nn.Module | None = None):
    return train(model or build(), Noisy(), Noisy(), config, run=folder)


@pytest.fixture(scope="module")
def whole():
    return run()


@pytest.fixture
def saves(monkeypatch):
    """(kind, step, bytes) of each checkpoint that is written."""
    written, save = [], checkpoint.save

    def noted(folder, step, state, kind="step", ranks=None):
        path = save(folder, step, state, kind)
        written.append((kind, step, path.stat().st_size))
        return path

    monkeypatch.setattr(checkpoint, "save", noted)
    return written


def best_losses(result) -> int:
    """How often a validation was the best so far."""
    losses = [record["val_loss"] for record in result.history if "val_loss" in record]
    return sum(loss < min(losses[:n], default=torch.inf) for n, loss in enumerate(losses))


def test_best_weights_are_written_as_often_as_checkpoints_and_without_the_rest(tmp_path, saves):
    result = run(tmp_path)
    assert best_losses(result) > 10
    assert [step for kind, step, _ in saves if kind == "step"] == [6, 12, 18, 20]
    assert [kind for kind, *_ in saves] == ["best", "step"] * 4
    best, whole = (max(size for kind, _, size in saves if kind == wanted) for wanted in ("best", "step"))
    assert best < whole / 2


def holds_the_best(folder, result) -> bool:
    """One best file, of the step that the result names, and its weights have the loss that it names."""
    (step,) = read_run(folder).saved_steps("best")
    model = build()
    for weights in (best_weights(folder), read_run(folder).weights()[0]):
        model.load_state_dict(weights)
        loss = evaluate(model, Noisy(), batch_size=CONFIG.val_batch_size).loss
        if (step, loss) != (result.best["step"], result.best["val_loss"]):
            return False
    return True


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("number", range(1, 9))
def test_a_kill_before_or_after_any_write_loses_nothing(tmp_path, whole, monkeypatch, number, when):
    save, count = checkpoint.save, [0]

    def killed(*arguments):
        count[0] += 1
        path = save(*arguments) if when == "after" or count[0] != number else None
        if count[0] == number:
            raise Killed
        return path

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(checkpoint, "save", killed)
        run(tmp_path)
    known = checkpoint.load_newest(tmp_path / "checkpoints")
    if known:  # the best that it knows of is there, whatever was written since
        assert known["progress"]["best"]["step"] in read_run(tmp_path).saved_steps("best")
    again = run(tmp_path)
    assert same(outcome(again), outcome(whole)) and holds_the_best(tmp_path, again)


def test_best_weights_that_no_checkpoint_came_to_know_do_not_stay(tmp_path, monkeypatch):
    """Killed after they were written, the run goes on, and on this machine, say, that validation is not the best."""
    first = run(tmp_path, Config(**vars(CONFIG) | {"steps": 6}))
    assert first.best["step"] == 6
    other = {"model": {n: torch.zeros_like(v) for n, v in first.ema.state_dict().items()}, "ema": None}
    checkpoint.save(tmp_path / "checkpoints", 9, other | {"progress": {"step": 9}}, "best")
    worse = Config(**vars(CONFIG) | {"min_delta": 0.0, "steps": 12, "save_every": 3})
    monkeypatch.setattr("utils.loop.state.State.is_best", lambda state, loss: False)
    result = run(tmp_path, worse)
    assert result.best["step"] == 6 and holds_the_best(tmp_path, result)


def test_a_run_whose_newest_checkpoint_is_a_whole_best_one_of_an_older_version(tmp_path, whole, monkeypatch):
    """It goes on from there: older versions saved all of it."""
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr("utils.loop.training.save_best", lambda *arguments: None)  # a step of its own, below
        patched.setattr("utils.loop.run_folder.RunFolder._prune_best", die_at(tmp_path, 12))
        run(tmp_path)
    newest = checkpoint.find(tmp_path / "checkpoints")[-1]
    os.replace(newest, newest.with_name(newest.name.replace("step", "best")))
    assert [checkpoint.step_of(path) for path in checkpoint.find(tmp_path / "checkpoints")] == [6]
    before = shutil.copytree(tmp_path, tmp_path / "copy")
    assert read_run(before).saved_steps("best") == [12] and best_weights(before).keys() == build().state_dict().keys()
    steps = []
    model = build()
    model.register_forward_hook(lambda module, inputs, outputs: steps.append(outputs.requires_grad))
    again = run(tmp_path, model=model)
    assert sum(steps) == 20 - 12 and same(outcome(again), outcome(whole)) and holds_the_best(tmp_path, again)


def die_at(folder, step: int):
    def die(run_folder, best):
        if step in map(checkpoint.step_of, checkpoint.find(folder / "checkpoints")):
            raise Killed

    return die


def test_a_run_does_not_go_on_from_weights_alone(tmp_path, whole):
    """Nor does it take them for a damaged checkpoint."""
    run(tmp_path, Config(**vars(CONFIG) | {"steps": 6}))
    for path in checkpoint.find(tmp_path / "checkpoints"):
        path.unlink()
    again = run(tmp_path)
    assert same(outcome(again), outcome(whole)) and holds_the_best(tmp_path, again)
