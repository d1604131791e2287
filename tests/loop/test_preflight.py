"""Bad input gets a clear error with the value and the next move, and nothing is overwritten."""

import json
import math
import os
import re
import resource
import shutil
import signal
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from utils import device as devices
from utils.data import IGNORE, TensorData, spiral
from utils.device import pick_device
from utils.loop import checkpoint, train
from utils.loop.config import CHOICES, MAY_CHANGE_ON_RESUME, Config, differences, field_docs
from utils.loop.run_folder import RunFolder
from utils.models import GPT, MLP

SPIRAL = spiral()
X, Y = SPIRAL.train.x[:64], SPIRAL.train.y[:64]


def net() -> nn.Module:
    torch.manual_seed(0)
    return MLP((2, 16, 3))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# ---- config ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "advice"),
    [
        ("steps", 0, "at least 1"),
        ("steps", -5, "at least 1"),
        ("steps", 10.0, "of type int"),
        ("batch_size", 0, "at least 1"),
        ("accumulation", 65, "batch_size 64 has no more parts"),
        ("lr", -1e-3, "above 0"),
        ("lr", 0, "above 0"),
        ("lr", float("nan"), "finite"),
        ("lr", float("inf"), "finite"),
        ("lr", "0.1", "of type float"),
        ("momentum", 1.0, "below 1"),
        ("beta2", -0.1, "at least 0"),
        ("ema", 1.0, "below 1"),
        ("clip", -1.0, "at least 0"),
        ("warmup", 1000, "before the 1000 steps do"),
        ("final_lr", 1.5, "from 0 to 1"),
        ("precision", "fp8", "fp32, bf16, fp16"),
        ("optimizer", "adam", "adamw, sgd"),
        ("schedule", "step", "constant, cosine, linear"),
        ("warmup", 2.5, "a number of steps, or a share below 1"),
        ("warmup", -0.1, "at least 0"),
        ("nonfinite", "ignore", "raise, skip"),
        ("workers", -1, "at least 0"),
        ("log_every", 0, "at least 1"),
        ("keep", 0, "at least 1"),
        ("seed", -1, "at least 0"),
        ("drop_last", 1, "of type bool"),
    ],
)
def test_config_refuses(field, value, advice):
    with pytest.raises(ValueError) as error:
        Config(**{field: value})
    assert str(error.value).startswith(f"{field} is {value!r}") and advice in str(error.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("dollars_per_hour", -1.0), ("dollars_per_hour", float("nan")), ("dollars_per_hour", True)),
        *(("peak_flops", float("inf")), ("peak_flops", "1e12"), ("progress", 1)),
    ],
)
def test_train_refuses_an_argument_that_cannot_work(tmp_path, name, value):
    with pytest.raises(ValueError, match=f"^{name} is {value!r}: it must be"):
        train(net(), TensorData(X, Y), None, Config(steps=1), run=tmp_path / "run", **{name: value})
    assert not (tmp_path / "run").exists()


def test_config_takes_whole_numbers_for_real_ones_and_is_frozen():
    config = Config(lr=1, clip=2)
    assert isinstance(config.lr, float) and isinstance(config.clip, float)
    with pytest.raises(AttributeError):
        config.lr = 2.0


def test_every_field_has_a_docstring_and_every_rule_names_a_field():
    names = {field.name for field in fields(Config)}
    assert field_docs().keys() == names and all(len(text) > 3 for text in field_docs().values())
    assert names > MAY_CHANGE_ON_RESUME and CHOICES.keys() < names


def test_differences_leave_out_what_only_watches():
    old = {field.name: field.default for field in fields(Config)}
    assert differences(old, Config()) == []
    assert differences(old, Config(workers=2, log_every=1, save_every=7, keep=9)) == []
    assert differences(old, Config(lr=0.5, seed=1)) == ["seed: 0 → 1", "lr: 0.001 → 0.5"]
    assert differences(old | {"gone": 1}, Config()) == ["gone: 1 → None"]


def test_differences_leave_out_what_errors_tell_to_change_in_the_same_run():
    """Micro-batches that fit into memory, and steps that are left out; the other way the steps made would be others."""
    old = {field.name: field.default for field in fields(Config)}
    assert differences(old, Config(accumulation=4, nonfinite="skip", max_skips=99)) == []
    old |= {"accumulation": 4, "nonfinite": "skip", "max_skips": 99}
    assert differences(old, Config()) == ["accumulation: 4 → 1", "nonfinite: 'skip' → 'raise'", "max_skips: 99 → 16"]


# ---- data and model -------------------------------------------------------------------------------------------------


class Unchecked(Dataset):
    """Any (x, y) pairs, as a user's own dataset would hand them out."""

    def __init__(self, x, y):
        self.x_rows, self.y_rows = x, y

    def __len__(self):
        return len(self.x_rows)

    def __getitem__(self, i):
        return self.x_rows[i], self.y_rows[i]


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (net(), Unchecked(X[:0], Y[:0]), "the dataset is empty"),
        (net(), TensorData(X, Y + 3), "label 5 is out of range for 3 classes"),
        (net(), Unchecked(X, Y.float()), "class indices of dtype int64"),
        (net(), Unchecked(X, Y.int()), "class indices of dtype int64"),
        (net(), Unchecked(X, Y.unsqueeze(1)), "outputs must have one axis more than targets"),
        (MLP((5, 3)), TensorData(X, Y), "the model does not take the data (train_data: x (2, 2) torch.float32"),
        (net(), TensorData(X.double(), Y), "the model does not take the data (train_data: x (2, 2) torch.float64"),
        (
            GPT(3, 8, 8, 2),
            TensorData(torch.full((4, 8), 3), torch.zeros(4, 8, dtype=torch.int64)),
            "does not take the data",
        ),
        (net().requires_grad_(False), TensorData(X, Y), "the model has no parameter that trains"),
    ],
)
def test_train_refuses_what_does_not_fit_before_writing_anything(tmp_path, model, data, message):
    with pytest.raises(ValueError) as error:
        train(model, data, None, Config(steps=2), run=tmp_path / "run")
    assert message in str(error.value)
    assert not (tmp_path / "run").exists()


class Dicts(Unchecked):
    def __getitem__(self, i):
        return {"x": self.x_rows[i], "y": self.y_rows[i]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (DataLoader(TensorData(X, Y)), "is a DataLoader: pass its dataset"),
        ((pair for pair in [(X, Y)]), "is a generator without a length or an index"),
        (Config(), "is a Config without a length or an index"),
        (Dicts(X, Y), "a dict with x, y"),
        (TensorDataset(X, Y, Y), "a list of Tensor, Tensor, Tensor"),
        (Unchecked(X[:0], Y[:0]), "the dataset is empty"),
        (TensorData(X, Y + 3), "label 5 is out of range for 3 classes"),
        (TensorData(X[:, :1], Y), "the model does not take the data"),
    ],
)
@pytest.mark.parametrize("part", ["train_data", "val_data"])
def test_data_that_cannot_work_is_refused_before_a_step(tmp_path, data, message, part):
    """Validation data too: an error at the first validation would cost all steps since the last checkpoint."""
    good = TensorData(X, Y)
    both = {"train_data": good, "val_data": good, part: data}
    with pytest.raises(ValueError) as error:
        train(net(), config=Config(steps=2), run=tmp_path / "run", **both)
    assert message in str(error.value)
    assert not (tmp_path / "run").exists()


class Lying(Unchecked):
    def __init__(self, length):
        super().__init__(X, Y)
        self.length = length

    def __len__(self):
        return self.length


class Ragged(Unchecked):
    """Example `at` is twice as wide."""

    def __init__(self, at):
        super().__init__(X, Y)
        self.at = at

    def __getitem__(self, i):
        return (torch.cat([X[i], X[i]]) if i == self.at else X[i]), Y[i]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (Unchecked, "whose length is none (TypeError: "),
        (Lying(-1), "whose length is none (ValueError: "),
        (Lying(2.5), "whose length is none (TypeError: "),
        (Ragged(1), "could not fetch examples 0, 1 as one batch"),
        (["spam", "eggs"], "an example must be a pair"),
        ([None, None], "could not fetch examples 0, 1 as one batch: TypeError"),
        ({"a": (X, Y)}, "could not fetch example 0 in epoch 0: KeyError"),
        (TensorData(X, torch.zeros(64, 0, dtype=torch.int64)), "outputs must have one axis more than targets"),
    ],
)
def test_data_that_cannot_be_read_is_refused(tmp_path, data, message):
    with pytest.raises(ValueError) as error:
        train(net(), data, None, Config(steps=2), run=tmp_path / "run")
    assert message in str(error.value) and not (tmp_path / "run").exists()


def test_a_dataset_may_hold_its_labels_as_it_likes():
    data = Unchecked(X, Y)
    for labels in (Y.tolist(), Y.numpy(), None, [["a"]], Y + 1):
        data.y = labels
        assert train(net(), data, None, Config(steps=1)).steps == 1


@pytest.mark.parametrize("workers", [0, 1])
def test_an_example_of_another_shape_is_named(workers):
    with pytest.raises(RuntimeError, match=r"^could not fetch examples (\d+, )*40(, \d+)* as one batch: RuntimeError"):
        train(net(), Ragged(40), None, Config(steps=4, batch_size=16, workers=workers))


def test_validation_data_without_a_target():
    """A mean of nothing, at the first validation, would cost the steps before it."""
    nothing = TensorData(X, torch.full_like(Y, IGNORE))
    with pytest.raises(ValueError, match="val_data: all targets are -100"):
        train(net(), TensorData(X, Y), nothing, Config(steps=2))


class Through(nn.Module):
    """A network whose output is handed on through any function."""

    def __init__(self, last):
        super().__init__()
        self.net, self.last = net(), last

    def forward(self, x):
        return self.last(self.net(x))


def on_meta() -> nn.Module:
    with torch.device("meta"):
        return nn.Linear(2, 3)


def not_finite() -> nn.Module:
    model = nn.Linear(2, 3)
    nn.init.constant_(model.weight, math.inf)
    return model


def spoilt_statistics(value: float) -> nn.Module:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    model[1].running_var[1] = value
    return model


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MLP, "the model is <class"),
        (None, "the model is None"),
        (nn.LazyLinear(3), "weight of the model has no values yet"),
        (on_meta(), "weight of the model has no values yet"),
        (not_finite(), "weight of the model is not finite to begin with"),
        (spoilt_statistics(math.nan), "1.running_var of the model is not finite to begin with"),
        (spoilt_statistics(math.inf), "1.running_var of the model is not finite to begin with"),
        (nn.Sequential(nn.Embedding(3, 2, sparse=True)), "0 of the model has sparse gradients"),
        (Through(lambda out: (out, out)), "the model returns a tuple"),
        (Through(lambda out: None), "the model returns a NoneType"),
    ],
)
def test_a_model_that_cannot_be_trained(tmp_path, model, message):
    with pytest.raises(ValueError) as error:
        train(model, TensorData(X, Y), None, Config(steps=2), run=tmp_path / "run")
    assert message in str(error.value) and not (tmp_path / "run").exists()


def cross_entropy(outputs, targets):
    return nn.functional.cross_entropy(outputs, targets, reduction="sum")


@pytest.mark.parametrize(
    ("model", "loss"), [(Through(torch.detach), cross_entropy), (net(), lambda o, t: cross_entropy(o.detach(), t))]
)
def test_a_loss_that_does_not_lead_back_to_the_weights(tmp_path, model, loss):
    """Only a backward pass can tell: no step is made, and nothing is saved that could be gone on with."""
    before = [tensor.clone() for tensor in model.to(pick_device()).state_dict().values()]
    with pytest.raises(ValueError, match=r"step 1, examples .* does not depend on a parameter"):
        train(model, TensorData(X, Y), None, Config(steps=2), loss=loss, run=tmp_path)
    assert all(map(torch.equal, model.state_dict().values(), before)) and not (tmp_path / "checkpoints").exists()
    with pytest.raises(ValueError, match="FLOPs: the loss does not depend on a parameter"):
        train(model, TensorData(X, Y), None, Config(steps=2), loss=loss, run=tmp_path / "another", peak_flops=1e12)
    assert not (tmp_path / "another").exists()


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (None, "the loss is None: pass a function"),
        (lambda o, t: cross_entropy(o, t).item(), "the loss is a float"),
        (lambda o, t: None, "the loss is a NoneType"),
        (lambda o, t: (cross_entropy(o, t), o), "the loss is a tuple"),
        (lambda o, t: cross_entropy(o, t).unsqueeze(0), "the loss is of shape (1,) and torch.float32"),
        (lambda o, t: o.argmax(-1).eq(t).sum(), "the loss is of shape () and torch.int64"),
        (lambda o, t: o @ t, "the loss does not take the model's outputs and the targets"),
    ],
)
def test_a_loss_that_cannot_be_minimised(tmp_path, loss, message):
    with pytest.raises(ValueError) as error:
        train(net(), TensorData(X, Y), None, Config(steps=2), loss=loss, run=tmp_path / "run")
    assert message in str(error.value) and not (tmp_path / "run").exists()


@pytest.mark.parametrize("options", [{"batch_size": 9}, {"batch_size": 16, "accumulation": 16}])
def test_one_example_for_batchnorm(tmp_path, options):
    """64 = 7 · 9 + 1: the last batch of the first epoch would stop the run in its eighth step."""
    model = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).to(pick_device())
    before = [tensor.clone() for tensor in model.state_dict().values()]
    with pytest.raises(ValueError, match="a micro-batch of one example would come up"):
        train(model, TensorData(X, Y), None, Config(steps=8, **options), run=tmp_path / "run")
    assert all(map(torch.equal, model.state_dict().values(), before)) and not (tmp_path / "run").exists()
    train(model, TensorData(X, Y), None, Config(steps=8, batch_size=9, drop_last=True))
    train(model, TensorData(X, Y), None, Config(steps=7, batch_size=9))  # it ends before
    model[1].eval()
    train(model, TensorData(X, Y), None, Config(steps=8, **options))


def test_a_config_that_is_none():
    with pytest.raises(ValueError, match=r"config is {'lr': 0.1}: pass a Config"):
        train(net(), TensorData(X, Y), None, {"lr": 0.1})
    with pytest.raises(ValueError, match=r"config is {}: pass a Config"):
        train(net(), TensorData(X, Y), None, {})


def test_an_error_of_the_model_says_in_which_step():
    def moody(out):
        moody.calls += 1
        if moody.calls == 4:  # the first checks the fit
            raise KeyError("mood")
        return out

    moody.calls = 0
    with pytest.raises(KeyError, match="mood") as error:
        train(Through(moody), TensorData(X, Y), None, Config(steps=4, batch_size=4))
    assert re.fullmatch(r"in step 3, examples \[\d+, \d+, \d+, \d+\]", *error.value.__notes__)


def test_a_label_out_of_range_in_validation_names_the_examples():
    labels = Y.clone()
    labels[40] = 7
    with pytest.raises(ValueError, match=r"evaluation, examples \[40, 41, 42, 43\]: .*out of range"):
        train(net(), TensorData(X, Y), Unchecked(X, labels), Config(steps=1, val_batch_size=4))


def test_float16_weights():
    with pytest.raises(ValueError, match="the model has float16 parameters"):
        train(net().half(), TensorData(X.half(), Y), None, Config(steps=1))


def test_a_loss_that_is_a_mean():
    with pytest.raises(ValueError, match=r'the loss is a mean .* return the sum over the targets, reduction="sum"'):
        train(net(), TensorData(X, Y), None, Config(steps=1), loss=nn.functional.cross_entropy)


def test_a_frozen_part_stays_in_eval_mode_and_a_forgotten_train_is_mended():
    model = nn.Sequential(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    model[1].eval()
    train(model, TensorData(X, Y), None, Config(steps=3))
    assert model[1].num_batches_tracked == 0
    model.eval()
    train(model, TensorData(X, Y), None, Config(steps=3))
    assert model[1].num_batches_tracked == 3


def test_a_batch_larger_than_the_data_with_drop_last(tmp_path):
    with pytest.raises(ValueError, match=r"batch_size 100 is larger than the data \(64 examples\) and drop_last"):
        train(net(), TensorData(X, Y), None, Config(batch_size=100, drop_last=True), run=tmp_path / "run")
    assert train(net(), TensorData(X, Y), None, Config(steps=2, batch_size=100)).steps == 2  # without, one short batch


def test_a_label_out_of_range_in_the_middle_names_step_and_examples():
    labels = Y.clone()
    labels[40] = 7
    with pytest.raises(
        ValueError, match=r"step \d, examples \[.*Target 7 is out of bounds.*label or token out of range"
    ):
        train(net(), Unchecked(X, labels), None, Config(steps=4, batch_size=16))


def test_an_unknown_device():
    with pytest.raises(ValueError, match="device 'tpu' is not available here"):
        pick_device("tpu")
    with pytest.raises(ValueError, match="device 'cuda:77' is not available here"):
        pick_device("cuda:77")
    with pytest.raises(ValueError, match=r"device 'mps.* is not available here") as refused:
        pick_device("mps" if not torch.backends.mps.is_available() else "mps:77")
    assert len(str(refused.value)) < 250


def test_mixed_precision_where_there_is_none():
    with pytest.raises(ValueError, match=r"precision is 'bf16'.* device 'meta' has no autocast: choose fp32"):
        devices.autocast(torch.device("meta"), "bf16")
    with devices.autocast(torch.device("meta"), "fp32"):
        pass


def test_a_device_without_float64_is_neither_chosen_nor_taken(monkeypatch):
    """MPS has none, and sums of losses are kept in it."""
    monkeypatch.setattr(devices, "accelerator", lambda: torch.device("mps"))
    assert pick_device() == torch.device("cpu")

    def empty(*sizes, dtype, **options):
        assert dtype == torch.float64
        raise TypeError("Cannot convert a MPS Tensor to float64 dtype as the MPS framework doesn't support float64.")

    monkeypatch.setattr(torch, "empty", empty)
    with pytest.raises(ValueError, match=r"device 'mps' is not available here \(Cannot convert .* float64"):
        pick_device("mps")


@pytest.mark.parametrize(
    "name", ["mps", "xpu", "hpu", "mtia", "xla", "lazy", "vulkan", "privateuseone", "cuda:77", "meta"]
)
def test_a_device_that_is_not_here_is_refused_before_anything_is_written(name, tmp_path):
    """Each backend has its own way to be missing: four kinds of error."""
    if name == "mps" and torch.backends.mps.is_available():
        name = "mps:77"
    if torch.device(name) == devices.accelerator():
        pytest.skip(f"there is a {name}")
    with pytest.raises(ValueError, match=f"device (is )?'{name}'.*: try 'auto' or 'cpu'"):
        train(net(), TensorData(X, Y), None, Config(steps=2, device=name), run=tmp_path / "run")
    assert not (tmp_path / "run").exists()


# ---- the run folder -------------------------------------------------------------------------------------------------


@pytest.fixture
def finished(tmp_path):
    run = tmp_path / "run"
    train(net(), TensorData(X, Y), TensorData(X, Y), Config(steps=4, save_every=2), run=run)
    return run


def test_a_folder_of_another_config(finished):
    before = snapshot(finished)
    with pytest.raises(ValueError, match=r"holds a run of another config \(steps: 4 → 3; lr: 0.001 → 0.1\)"):
        train(net(), TensorData(X, Y), None, Config(steps=3, lr=0.1), run=finished)
    assert snapshot(finished) == before


def test_a_folder_of_other_data(finished):
    before = snapshot(finished)
    with pytest.raises(ValueError, match="training examples: 64 → 60"):
        train(net(), TensorData(X[:60], Y[:60]), None, Config(steps=4, save_every=2), run=finished)
    assert snapshot(finished) == before


@pytest.mark.parametrize("other", [MLP((2, 32, 3)), MLP((2, 16, 16, 3)), nn.Sequential(nn.Flatten(), nn.Linear(2, 3))])
def test_a_checkpoint_of_another_model(finished, other):
    before = snapshot(finished)
    with pytest.raises(ValueError, match="the checkpoint is of another model: where it has"):
        train(other, TensorData(X, Y), None, Config(steps=4, save_every=2), run=finished)
    assert snapshot(finished) == before


def test_a_part_that_was_frozen_between_two_legs(tmp_path):
    train(net(), TensorData(X, Y), None, Config(steps=2), run=tmp_path)
    model = net()
    model[1].requires_grad_(False)
    before = snapshot(tmp_path)
    with pytest.raises(ValueError, match=r"trains 4 parameters .* this one 2 .*was a part frozen since"):
        train(model, TensorData(X, Y), None, Config(steps=4), run=tmp_path)
    assert snapshot(tmp_path) == before


def test_metadata_that_a_power_cut_has_emptied(tmp_path):
    """The checkpoints tell what the run is: it goes on with the same bits."""
    options = {"lr": 0.1, "save_every": 2}
    train(net(), TensorData(X, Y), None, Config(steps=4, **options), run=tmp_path)
    (tmp_path / "run.json").write_text("")
    with pytest.raises(ValueError, match=r"of another config \(lr: 0.1 → 0.2\)"):
        train(net(), TensorData(X, Y), None, Config(steps=6, lr=0.2, save_every=2), run=tmp_path)
    resumed, straight = net(), net()
    train(resumed, TensorData(X, Y), None, Config(steps=6, **options), run=tmp_path)
    train(straight, TensorData(X, Y), None, Config(steps=6, **options))
    assert all(map(torch.equal, resumed.state_dict().values(), straight.state_dict().values()))
    assert json.loads((tmp_path / "run.json").read_text())["sessions"][0]["from_step"] == 4


@pytest.mark.parametrize("older", [False, True])
def test_where_all_checkpoints_are_damaged(tmp_path, capsys, older):
    """A best one of an older version holds a full state: the run goes on from it, and not from step 0."""
    config = Config(steps=8, lr=0.1, save_every=4, val_every=2, log_every=2)
    whole = train(net(), TensorData(X, Y), TensorData(X, Y), config, run=tmp_path)
    first, last = checkpoint.find(tmp_path / "checkpoints")
    if older:
        shutil.copy(last, last.with_name(last.name.replace("step", "best")))
    for path in (first, last):
        path.write_bytes(path.read_bytes()[:-9])
    again = train(net(), TensorData(X, Y), TensorData(X, Y), config, run=tmp_path)
    said = f"resumed at step {whole.best['step']}" if older else "no usable checkpoint, starts at step 0"
    assert said in capsys.readouterr().out and whole.best["step"] == 8
    assert [checkpoint.step_of(path) for path in checkpoint.find(tmp_path / "checkpoints", "best")] == [8]
    assert all(map(torch.equal, again.model.state_dict().values(), whole.model.state_dict().values()))
    assert [record["step"] for record in again.history] == [record["step"] for record in whole.history]


def test_a_folder_whose_metadata_is_not_ours(finished):
    (finished / "run.json").write_text("{}")
    before = snapshot(finished)
    with pytest.raises(ValueError, match="not the metadata of a run"):
        train(net(), TensorData(X, Y), None, Config(steps=4), run=finished)
    assert snapshot(finished) == before


@pytest.mark.parametrize(
    "text", ["[]", '{"config": null, "data": {}, "sessions": []}', "not json", '{"config": {}, "data": {}}']
)
def test_metadata_of_another_shape(finished, text):
    (finished / "run.json").write_text(text)
    with pytest.raises(ValueError, match=r"run\.json is not the metadata of a run"):
        train(net(), TensorData(X, Y), None, Config(steps=4, save_every=2), run=finished)


def test_a_checkpoint_of_another_config_whose_metadata_is_lost(finished):
    (finished / "run.json").unlink()
    with pytest.raises(ValueError, match=r"run.checkpoints is of another config \(lr: 0.001 → 0.5\)"):
        train(net(), TensorData(X, Y), None, Config(steps=4, save_every=2, lr=0.5), run=finished)


def test_other_labels(tmp_path):
    def go(**labels):
        return train(net(), TensorData(X, Y), None, Config(steps=2), run=tmp_path, labels=labels)

    go(data="a", dropout=0.1)
    go(data="a", dropout=0.1)
    with pytest.raises(ValueError, match=r"data: a → b"):
        go(data="b", dropout=0.1)
    with pytest.raises(ValueError, match=r"dropout: 0.1 → None"):
        go(data="a")


def test_two_runs_in_one_folder(finished):
    """The second is refused while the first holds the folder, and has changed nothing."""
    holder = RunFolder(finished, Config(steps=4, save_every=2), 64)
    with holder:
        holder.open_for_writing(4, torch.device("cpu"))
        before = snapshot(finished)
        with pytest.raises(RuntimeError, match="another run is training in"):
            train(net(), TensorData(X, Y), None, Config(steps=4, save_every=2), run=finished)
        assert snapshot(finished) == before
    assert train(net(), TensorData(X, Y), None, Config(steps=4, save_every=2), run=finished).steps == 4


def test_another_run_between_look_and_start(finished):
    """One that opened the folder before another trained there would begin where that one began."""
    late = RunFolder(finished, Config(steps=4, save_every=2), 64)
    train(net(), TensorData(X, Y), TensorData(X, Y), Config(steps=4, save_every=2), run=finished)
    before = snapshot(finished)
    with late, pytest.raises(RuntimeError, match=r"another run has trained in .*: start again"):
        late.open_for_writing(0, torch.device("cpu"))
    assert snapshot(finished) == before


def test_checkpoints_that_are_gone_are_said_to_be_and_the_old_log_is_kept(finished, capsys):
    old = (finished / "log.jsonl").read_text()
    for path in (finished / "checkpoints").iterdir():
        path.unlink()
    train(net(), TensorData(X, Y), TensorData(X, Y), Config(steps=4, save_every=2), run=finished)
    assert "no usable checkpoint, starts at step 0" in capsys.readouterr().out
    assert (finished / "log.jsonl.old").read_text() == old
    again = (finished / "log.jsonl").read_text()
    shutil.rmtree(finished / "checkpoints")
    train(net(), TensorData(X, Y), TensorData(X, Y), Config(steps=4, save_every=2), run=finished)
    assert (finished / "log.jsonl.old").read_text() == old and (finished / "log.jsonl.old2").read_text() == again


def test_files_of_the_users_own_stay(tmp_path):
    (tmp_path / ".tmp-mine").mkdir()
    (tmp_path / ".tmp-mine" / "thesis.txt").write_text("years of work")
    train(net(), TensorData(X, Y), None, Config(steps=2), run=tmp_path)
    assert (tmp_path / ".tmp-mine" / "thesis.txt").exists()


def test_foreign_lines_in_the_log_are_left_out(finished):
    with open(finished / "log.jsonl", "ab") as log:
        log.write(b'17\n{"a": 1}\n\xff\xfe\n{"step": 4, "lo')
    result = train(net(), TensorData(X, Y), TensorData(X, Y), Config(steps=4, save_every=2), run=finished)
    assert [record["step"] for record in result.history] == [4, 4]


def test_an_unset_variable_for_a_folder():
    with pytest.raises(ValueError, match="name a folder"):
        train(net(), TensorData(X, Y), None, Config(steps=1), run="")


@pytest.mark.parametrize("labels", [7, {"a": math.nan}, {"a": (1, 2)}])
def test_labels_that_are_not_the_same_when_they_are_read_back(tmp_path, labels):
    with pytest.raises(ValueError, match=r"^labels "):
        train(net(), TensorData(X, Y), None, Config(steps=1), run=tmp_path / "run", labels=labels)
    assert not (tmp_path / "run").exists()


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(ValueError, match="is a file: name a folder"):
        train(net(), TensorData(X, Y), None, Config(steps=1), run=tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


def test_a_file_that_took_the_folders_place_since_it_was_looked_at(tmp_path):
    folder = RunFolder(tmp_path / "run", Config(steps=1), len(X))
    (tmp_path / "run").write_text("mine")
    with folder, pytest.raises(RuntimeError, match=f"{tmp_path}/run is now a file"):
        folder.open_for_writing(0, torch.device("cpu"))
    assert (tmp_path / "run").read_text() == "mine"


def test_a_disk_that_fills_up_while_training(tmp_path):
    """The run stops with the reason, and goes on from its last good checkpoint once there is room again."""
    data, config = TensorData(X, Y), Config(steps=6, save_every=2, lr=0.1)
    torch.manual_seed(0)
    big = MLP((2, 4000, 3))
    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill_up(outputs, targets):
        fill_up.steps += outputs.requires_grad
        if fill_up.steps == 4:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
        return nn.functional.cross_entropy(outputs, targets, reduction="sum")

    fill_up.steps = 0
    try:
        with pytest.raises(RuntimeError, match=rf"{tmp_path} cannot be written to: .*File too large") as full:
            train(big, data, None, config, run=tmp_path, loss=fill_up)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert "free space" in str(full.value) and "another folder" not in str(full.value)  # which would begin at step 0
    assert all(str(full.value).count(words) == 1 for words in ("intact", "start again"))  # said once
    assert checkpoint.load_newest(tmp_path / "checkpoints")["progress"]["step"] == 2
    torch.manual_seed(0)
    resumed, straight = MLP((2, 4000, 3)), big
    torch.manual_seed(0)
    straight = MLP((2, 4000, 3))
    train(resumed, data, None, config, run=tmp_path)
    train(straight, data, None, config)
    assert all(map(torch.equal, resumed.state_dict().values(), straight.state_dict().values()))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a folder cannot be found by its handle")
@pytest.mark.parametrize("moment", ["between two steps", "during a save"])
@pytest.mark.parametrize("replacement", ["nothing", "another run", "a file"])
def test_a_folder_that_is_moved_while_training(tmp_path, monkeypatch, replacement, moment):
    """The run continues in its folder, wherever that is now; what took its place stays as it was."""
    run, aside, other = tmp_path / "run", tmp_path / "aside", tmp_path / "other"
    config = Config(steps=6, save_every=2, log_every=2, keep=1)
    train(net(), TensorData(X, Y), None, Config(steps=8, save_every=2, log_every=2, keep=1), run=other)
    write, steps = checkpoint._write, []

    def move() -> None:
        run.rename(aside)
        if replacement == "another run":
            shutil.copytree(other, run)
        elif replacement == "a file":
            run.write_text("mine")

    def write_and_move(state: dict, path: Path) -> str:
        digest = write(state, path)
        if moment == "during a save" and state["progress"]["step"] == 4:
            move()
        return digest

    def loss(outputs, targets):
        steps.append(len(targets))
        if moment == "between two steps" and steps.count(64) == 4:
            move()
        return nn.functional.cross_entropy(outputs, targets, reduction="sum")

    monkeypatch.setattr(checkpoint, "_write", write_and_move)
    assert len(train(net(), TensorData(X, Y), None, config, run=run, loss=loss).history) == 3
    assert checkpoint.load_newest(aside / "checkpoints")["progress"]["step"] == 6
    assert [json.loads(line)["step"] for line in (aside / "log.jsonl").read_text().splitlines()] == [2, 4, 6]
    if replacement == "another run":
        assert snapshot(run) == snapshot(other)
    elif replacement == "a file":
        assert run.read_text() == "mine"
    else:
        assert not run.exists()


def test_a_folder_that_is_removed_while_training(tmp_path):
    run = tmp_path / "run"
    steps = []

    def loss(outputs, targets):
        steps.append(len(targets))
        if steps.count(64) == 3:
            shutil.rmtree(run)
        return nn.functional.cross_entropy(outputs, targets, reduction="sum")

    with pytest.raises(RuntimeError, match=rf"{run} cannot be written to: the folder was removed") as removed:
        train(net(), TensorData(X, Y), None, Config(steps=6, save_every=2), run=run, loss=loss)
    assert str(removed.value).count("start again") == 1
    assert not run.exists()


@pytest.mark.parametrize(("in_the_way", "kept"), [("log.jsonl", "checkpoints")])
def test_a_file_that_cannot_be_written(tmp_path, in_the_way, kept):
    """The log and the metadata: the error names the folder, the reason and the next move."""
    train(net(), TensorData(X, Y), None, Config(steps=4, log_every=1, save_every=2), run=tmp_path)
    (tmp_path / in_the_way).unlink(missing_ok=True)
    (tmp_path / in_the_way).mkdir()
    before = {name: content for name, content in snapshot(tmp_path).items() if name.startswith(kept)}
    with pytest.raises(RuntimeError, match=r"cannot be written to: .*Is a directory.* start again to resume"):
        train(net(), TensorData(X, Y), None, Config(steps=4, log_every=1, save_every=2), run=tmp_path)
    assert before.items() <= snapshot(tmp_path).items()


@pytest.mark.parametrize("name", ["checkpoints/.tmp-step-000000009-1", ".tmp-run.json.1"])
def test_what_a_killed_save_left_is_gone_before_the_first_step(tmp_path, name):
    """On a full disk the next save may need its room."""
    left = tmp_path / name
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"half a file")
    seen = []

    def look(outputs, targets):
        seen.append(left.exists())
        return nn.functional.cross_entropy(outputs, targets, reduction="sum")

    train(net(), TensorData(X, Y), None, Config(steps=2), run=tmp_path, loss=look)
    assert seen[0] and not any(seen[-2:])  # the first calls check the fit, before anything is written


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RuntimeError, match=r"the run folder cannot be written to .*Permission denied"):
        train(net(), TensorData(X, Y), None, Config(steps=1), run=tmp_path / "run")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a file system that takes no files from anyone")
def test_a_folder_where_not_even_root_may_write():
    with pytest.raises(RuntimeError, match=r"the run folder cannot be written to .*/proc/run"):
        train(net(), TensorData(X, Y), None, Config(steps=1), run="/proc/run")


# ---- metadata -------------------------------------------------------------------------------------------------------


def test_the_metadata_accounts_for_the_run(tmp_path):
    config = Config(steps=4, save_every=2)
    train(net(), TensorData(X, Y), None, config, run=tmp_path, dollars_per_hour=36.0)
    metadata = json.loads((tmp_path / "run.json").read_text())
    assert Config(**metadata["config"]) == config and metadata["data"] == {"training examples": 64}
    session = metadata["sessions"][0]
    assert session["from_step"] == 0 and session["to_step"] == 4
    assert session["fingerprint"]["torch"] == torch.__version__ and session["fingerprint"]["threads"] == 1
    assert {"commit", "dirty", "hardware", "python", "numpy", "device"} <= session["fingerprint"].keys()
    assert metadata["dollars"] == pytest.approx(metadata["seconds"] / 100) and metadata["seconds"] > 0


def test_resuming_on_other_threads_says_so(tmp_path, capsys):
    train(net(), TensorData(X, Y), None, Config(steps=4), run=tmp_path)
    torch.set_num_threads(2)
    train(net(), TensorData(X, Y), None, Config(steps=4), run=tmp_path)
    assert "threads 1 → 2" in capsys.readouterr().out
