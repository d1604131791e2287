"""The best validation is the best by the number that is asked for, and patience counts in the same."""

import json
import math

import pytest
import torch
from torch import nn

from utils.__main__ import main
from utils.data import TensorData, spiral
from utils.loop import Config, checkpoint, train
from utils.loop.run_folder import best_weights
from utils.loop.saved_run import read_run

SPIRAL = spiral()
DATA = TensorData(SPIRAL.train.x[:96], SPIRAL.train.y[:96])
VAL = TensorData(SPIRAL.train.x[96:150], SPIRAL.train.y[96:150])


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))


def config(**changes) -> Config:
    return Config(**{"steps": 6, "batch_size": 24, "lr": 0.03, "val_every": 1, "log_every": 9, "keep": 9} | changes)


def adds(*numbers: float, name: str = "f1"):
    """An on_step that gives the validation after step n the n-th of these numbers; and log records one that is no good."""
    return lambda record, model: {name: numbers[record["step"] - 1] if "val_loss" in record else math.nan}


def weights_after(step: int) -> dict:
    model = net()
    train(model, DATA, None, config(steps=step))
    return model.state_dict()


def same(one: dict, other: dict) -> bool:
    return all(torch.equal(one[name], other[name]) for name in other)


@pytest.mark.parametrize(
    ("select", "numbers", "best"),
    [
        ("max f1", (0.1, 0.5, 0.4, 0.7, 0.6, 0.2), 4),
        ("min f1", (0.1, 0.5, 0.4, 0.7, 0.6, 0.2), 1),
        ("min f1", (3, 2, 1, 1, 2, 3), 3),
        ("max f1", (-1, -2, -0.5, -3, -0.5, -4), 3),
        ("max exact match", (0, 0, 0, 0, 1, 0), 5),
    ],
)
def test_the_best_is_selected_by_a_number_that_on_step_adds(tmp_path, select, numbers, best):
    name = select.partition(" ")[2]
    on_step = adds(*numbers, name=name)
    result = train(net(), DATA, VAL, config(select=select), on_step=on_step)
    assert result.best == {"step": best, name: numbers[best - 1]} and result.steps == 6
    assert same(result.best_weights, weights_after(best))
    saved = train(net(), DATA, VAL, config(select=select), run=tmp_path, on_step=on_step)
    assert saved.best == result.best and same(best_weights(tmp_path), weights_after(best))
    assert len(checkpoint.find(tmp_path / "checkpoints", "best")) == 1
    assert read_run(tmp_path).summary()["best"] == f"step {best}, {name} {numbers[best - 1]:.4f}"
    assert read_run(tmp_path).weights()[1] == f"step {best}, the best validation, {name} {numbers[best - 1]:.4f}"


def test_the_best_is_selected_by_accuracy_without_a_hook(tmp_path):
    settings = {"steps": 60, "val_every": 5, "lr": 0.01}
    result = train(net(), DATA, VAL, config(**settings, select="max val_accuracy"), run=tmp_path)
    validated = [record for record in result.history if "val_loss" in record]
    first_of_the_most_accurate = max(validated, key=lambda record: record["val_accuracy"])
    assert result.best == {name: first_of_the_most_accurate[name] for name in ("step", "val_accuracy")}
    by_loss = train(net(), DATA, VAL, config(**settings)).best
    assert by_loss == {name: min(validated, key=lambda r: r["val_loss"])[name] for name in ("step", "val_loss")}
    assert by_loss["step"] != result.best["step"]


@pytest.mark.parametrize(
    ("select", "numbers", "min_delta", "steps", "best"),
    [
        ("max f1", (0.5, 0.4, 0.3, 0.9, 0.9, 0.9), 0.0, 3, 1),
        ("max f1", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6), 0.0, 6, 6),
        ("min f1", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6), 0.0, 3, 1),
        ("max f1", (0.5, 0.625, 0.75, 0.8, 0.85, 0.9), 0.25, 3, 3),  # two are no better by more than a quarter
        ("max f1", (0.5, 0.625, 0.8, 0.9, 0.95, 0.9), 0.25, 5, 5),
        ("min f1", (0.5, 0.45, 0.2, 0.19, 0.18, 0.1), 0.25, 5, 5),
    ],
)
def test_patience_counts_by_the_same_number_and_min_delta_decides_about_patience_alone(
    select, numbers, min_delta, steps, best
):
    settings = config(select=select, patience=2, min_delta=min_delta)
    result = train(net(), DATA, VAL, settings, on_step=adds(*numbers))
    assert (result.steps, result.best["step"], result.stopped_early) == (steps, best, steps < 6)
    assert same(result.best_weights, weights_after(best))


def test_the_lowest_loss_is_the_best_whatever_min_delta():
    """A min_delta so large that nothing counts as better: the lowest is found, and patience still waits for more."""
    plain = train(net(), DATA, VAL, config(steps=20))
    strict = train(net(), DATA, VAL, config(steps=20, min_delta=9.0))
    assert plain.best == strict.best and strict.best["step"] > 1
    assert min(record["val_loss"] for record in strict.history if "val_loss" in record) == strict.best["val_loss"]
    assert train(net(), DATA, VAL, config(steps=20, min_delta=9.0, patience=3)).steps == 4


# ---- on resume -------------------------------------------------------------------------------------------------------


class Stop(Exception):
    pass


def stopping_at(step: int, on_step):
    def look(record, model):
        if record["step"] == step:
            raise Stop
        return on_step(record, model)

    return look


@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_a_resumed_run_selects_and_stops_as_if_it_had_not_stopped(tmp_path, step):
    numbers = (0.5, 0.6, 0.8, 0.7, 0.85, 0.9)
    settings = {"select": "max f1", "patience": 2, "min_delta": 0.25, "save_every": 1}
    whole = train(net(), DATA, VAL, config(**settings), on_step=adds(*numbers))
    with pytest.raises(Stop):
        train(net(), DATA, VAL, config(**settings), run=tmp_path, on_step=stopping_at(step, adds(*numbers)))
    resumed = train(net(), DATA, VAL, config(**settings), run=tmp_path, on_step=adds(*numbers))
    assert (
        (resumed.steps, resumed.best, resumed.stopped_early)
        == (whole.steps, whole.best, True)
        == (*(5, {"step": 5, "f1": 0.85}, True),)
    )
    assert same(best_weights(tmp_path), whole.best_weights)
    with pytest.raises(ValueError, match="select: 'max f1' → 'min val_loss'"):
        train(net(), DATA, VAL, config(**settings | {"select": "min val_loss"}), run=tmp_path)


def test_a_folder_of_an_older_version_goes_on_with_what_counted_as_better_there(tmp_path):
    """Its config has no `select`, and its best was what patience had counted from: not 0.19, but 0.2 as after step 3."""
    losses = {1: 0.5, 2: 0.45, 3: 0.2, 4: 0.19, 5: 0.18, 6: 0.1}
    settings = {"patience": 2, "min_delta": 0.25, "save_every": 1}
    on_step = adds(*losses.values())
    train(net(), DATA, VAL, config(**settings | {"steps": 4}, select="min f1"), run=tmp_path, on_step=on_step)
    metadata = json.loads((tmp_path / "run.json").read_text())
    del metadata["config"]["select"]
    (tmp_path / "run.json").write_text(json.dumps(metadata))
    for path in checkpoint.find(tmp_path / "checkpoints", kind=None):
        saved = checkpoint.load(path)
        path.unlink()
        if "optimizer" not in saved:  # the best weights alone, as no older version saved them
            continue
        del saved["config"]["select"], saved["progress"]["last_improvement"]
        saved["progress"]["best"] = {"step": 3, "val_loss": 0.2}
        checkpoint.save(tmp_path / "checkpoints", saved["progress"]["step"], saved, path.name.partition("-")[0])
    result = train(net(), DATA, VAL, config(**settings), run=tmp_path)
    assert result.steps == 5 and result.stopped_early  # the losses of this net are above 0.2
    assert result.best == {"step": 3, "val_loss": 0.2}


def of_the_others(outputs, targets):
    """Compares the examples of a batch."""
    distances = (outputs[:, None] - outputs).square().sum(-1)
    return (distances * (targets[:, None] == targets)).sum() / len(targets), len(targets)


BEFORE = {"steps": 6, "val_every": 2, "val_batch_size": 54, "save_every": 3}


def stopped_after_4(folder, loss, **settings) -> None:
    on_step = stopping_at(4, adds(*range(6)))
    with pytest.raises(Stop):
        train(net(), DATA, VAL, config(**BEFORE | settings), run=folder, loss=loss, on_step=on_step)


@pytest.mark.parametrize("change", [{"val_every": 1}, {"val_every": 0}, {"val_every": 5}, {"val_batch_size": 7}])
def test_validations_may_change_on_resume(tmp_path, change):
    """The weights are those of a run that was not stopped, and the best is the best of the validations that were made."""
    straight, resumed = net(), net()
    train(straight, DATA, VAL, config(**BEFORE))
    stopped_after_4(tmp_path, nn.CrossEntropyLoss())
    result = train(resumed, DATA, VAL, config(**BEFORE | change), run=tmp_path, loss=nn.CrossEntropyLoss())
    assert same(resumed.state_dict(), straight.state_dict())
    validated = [record for record in result.history if "val_loss" in record]
    every = change.get("val_every", 2)
    assert [r["step"] for r in validated] == [2, *(n for n in (4, 5, 6) if n == 6 or (every and n % every == 0))]
    assert result.best["val_loss"] == min(record["val_loss"] for record in validated)
    saved = json.loads((tmp_path / "run.json").read_text())["config"]
    assert saved == saved | change


@pytest.mark.parametrize(
    ("change", "settings", "loss", "words"),
    [
        ({"val_every": 1}, {"patience": 9}, nn.CrossEntropyLoss(), "val_every: 2 → 1, by which patience counts"),
        ({"val_batch_size": 7}, {"patience": 9}, nn.CrossEntropyLoss(), "val_batch_size: 54 → 7, by which patience"),
        ({"val_batch_size": 7}, {}, of_the_others, r"\(val_batch_size: 54 → 7\), whose losses depend on the size of a"),
    ],
)
def test_validations_may_not_change_where_more_depends_on_them(tmp_path, change, settings, loss, words):
    stopped_after_4(tmp_path, loss, **settings)
    files = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=words):
        train(net(), DATA, VAL, config(**BEFORE | settings | change), run=tmp_path, loss=loss)
    assert files == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    train(net(), DATA, VAL, config(**BEFORE | settings), run=tmp_path, loss=loss)


# ---- what cannot be selected by --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("select", "words"),
    [
        ("f1", "select is 'f1': say whether the smallest or the largest is best, 'min f1' or 'max f1'"),
        ("", "select is '': say whether"),
        ("max", "select is 'max': say whether"),
        ("max  f1", "select is 'max  f1': say whether"),
        ("highest f1", "select is 'highest f1': say whether"),
        ("max val_loss", "select is 'max val_loss': that would be the worst validation"),
        ("min val_accuracy", "select is 'min val_accuracy': that would be the worst"),
        (("max", "f1"), "select is .*: it must be of type str"),
    ],
)
def test_what_says_no_direction_or_no_number_is_refused(select, words):
    with pytest.raises(ValueError, match=words):
        Config(select=select)


@pytest.mark.parametrize(
    ("select", "given", "words"),
    [
        ("max f1", {}, "nothing adds f1 to the record: pass on_step, which returns it"),
        ("max f1", {"val_data": None, "on_step": adds(1)}, "there is no validation: pass val_data"),
        ("max val_accuracy", {"loss": nn.MSELoss()}, "only a cross-entropy of class indices has an accuracy"),
        ("max val_accuracy", {"loss": lambda outputs, y: (outputs.sum(), len(y))}, "only a cross-entropy of class"),
    ],
)
def test_a_number_that_no_validation_can_have_is_refused_before_anything_is_written(tmp_path, select, given, words):
    with pytest.raises(ValueError, match=words):
        train(**{"model": net(), "train_data": DATA, "val_data": VAL, "config": config(select=select), **given},
              run=tmp_path / "run")  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_a_missing_number_ends_the_run_with_lines_that_add_it():
    with pytest.raises(ValueError, match="the validation after step 1 has no f1") as raised:
        train(net(), DATA, VAL, config(select="max f1"), on_step=lambda record, model: {"F1": 0.5})
    assert "(it has val_loss, val_accuracy, F1)" in str(raised.value)
    advised = {}
    exec(str(raised.value).partition(":\n")[2].replace("    def", "def").replace("...", "0.5"), advised)
    assert train(net(), DATA, VAL, config(select="max f1"), on_step=advised["on_step"]).best["f1"] == 0.5


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_not_finite_ends_the_run_or_is_never_the_best(bad):
    numbers = adds(0.5, bad, 0.4, 0.6, 0.1, 0.2)
    with pytest.raises(
        FloatingPointError, match=r"f1, by which the best is selected, is .* after step 2: return a finite"
    ):
        train(net(), DATA, VAL, config(select="max f1"), on_step=numbers)
    for select, best in (("max f1", 4), ("min f1", 5)):
        result = train(net(), DATA, VAL, config(select=select, nonfinite="skip"), on_step=numbers)
        assert result.best["step"] == best


def test_from_the_shell(tmp_path, capsys):
    line = ["train", "--run", str(tmp_path / "run"), "--data", "spiral", "--steps", "6", "--val-every", "2"]
    with pytest.raises(SystemExit):
        main([*line, "--select", "max f1"])
    assert "choose from" in capsys.readouterr().err and not (tmp_path / "run").exists()
    assert main([*line, "--select", "max val_accuracy"]) == 0
    assert "best validation accuracy 0." in capsys.readouterr().out
    assert "val_accuracy 0." in read_run(tmp_path / "run").summary()["best"]
