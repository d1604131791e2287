"""Bad input gets a clear error with the value and the next move, and nothing is overwritten."""

import json
import os
import resource
import shutil
import signal
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from utils import checkpoint
from utils.config import CHOICES, WATCHING, Config, differences, field_docs
from utils.data import TensorData, spiral
from utils.device import pick_device
from utils.loop import train
from utils.models import GPT, MLP
from utils.run import RunFolder

SPIRAL = spiral()
X, Y = SPIRAL.train.x[:64], SPIRAL.train.y[:64]


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


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
        ("schedule", "linear", "constant, cosine"),
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


def test_config_takes_whole_numbers_for_real_ones_and_is_frozen():
    config = Config(lr=1, clip=2)
    assert isinstance(config.lr, float) and isinstance(config.clip, float)
    with pytest.raises(AttributeError):
        config.lr = 2.0


def test_every_field_has_a_docstring_and_every_rule_names_a_field():
    names = {field.name for field in fields(Config)}
    assert field_docs().keys() == names and all(len(text) > 3 for text in field_docs().values())
    assert names > WATCHING and CHOICES.keys() < names


def test_differences_leave_out_what_only_watches():
    old = {field.name: field.default for field in fields(Config)}
    assert differences(old, Config()) == []
    assert differences(old, Config(workers=2, log_every=1, save_every=7, keep=9, progress=True)) == []
    assert differences(old, Config(lr=0.5, seed=1)) == ["seed: 0 → 1", "lr: 0.001 → 0.5"]
    assert differences(old | {"gone": 1}, Config()) == ["gone: 1 → None"]


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
        (net().requires_grad_(False), TensorData(X, Y), "no parameter with requires_grad=True"),
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
        (Dicts(X, Y), "an example must be a pair (x, y) of tensors or numbers; two of them came as a dict with x, y"),
        (
            TensorDataset(X, Y, Y),
            "an example must be a pair (x, y) of tensors or numbers; two of them came as a list of",
        ),
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


# ---- the run folder -------------------------------------------------------------------------------------------------


@pytest.fixture
def finished(tmp_path):
    run = tmp_path / "run"
    train(net(), TensorData(X, Y), TensorData(X, Y), Config(steps=4, save_every=2), run=run)
    return run


def test_a_folder_of_another_config(finished):
    before = snapshot(finished)
    with pytest.raises(ValueError, match=r"holds a run of another config \(steps: 4 → 8; lr: 0.001 → 0.1\)"):
        train(net(), TensorData(X, Y), None, Config(steps=8, lr=0.1), run=finished)
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


def test_a_folder_whose_metadata_is_not_ours(finished):
    (finished / "run.json").write_text("{}")
    before = snapshot(finished)
    with pytest.raises(ValueError, match="not the metadata of a run"):
        train(net(), TensorData(X, Y), None, Config(steps=4), run=finished)
    assert snapshot(finished) == before


@pytest.mark.parametrize(
    "text", ["[]", '{"config": null, "data": {}, "legs": []}', "not json", '{"config": {}, "data": {}}']
)
def test_metadata_of_another_shape(finished, text):
    (finished / "run.json").write_text(text)
    with pytest.raises(ValueError, match=r"run\.json is not the metadata of a run"):
        train(net(), TensorData(X, Y), None, Config(steps=4, save_every=2), run=finished)


def test_a_checkpoint_of_another_config_whose_metadata_is_lost(finished):
    (finished / "run.json").unlink()
    with pytest.raises(ValueError, match=r"the checkpoint is of another config \(lr: 0.001 → 0.5\)"):
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
        holder.begin(4, torch.device("cpu"))
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
    with late, pytest.raises(RuntimeError, match=r"another run has trained in .* meanwhile: start again"):
        late.begin(0, torch.device("cpu"))
    assert snapshot(finished) == before


def test_checkpoints_that_are_gone_are_said_to_be_and_the_old_log_is_kept(finished, capsys):
    old = (finished / "log.jsonl").read_text()
    for path in (finished / "checkpoints").iterdir():
        path.unlink()
    train(net(), TensorData(X, Y), TensorData(X, Y), Config(steps=4, save_every=2), run=finished)
    assert "no usable checkpoint, starts at step 0" in capsys.readouterr().out
    assert (finished / "log.jsonl.old").read_text() == old


def test_foreign_lines_in_the_log_are_left_out(finished):
    with open(finished / "log.jsonl", "ab") as log:
        log.write(b'17\n{"a": 1}\n\xff\xfe\n{"step": 4, "lo')
    result = train(net(), TensorData(X, Y), TensorData(X, Y), Config(steps=4, save_every=2), run=finished)
    assert [record["step"] for record in result.history] == [4, 4]


def test_an_unset_variable_for_a_folder():
    with pytest.raises(ValueError, match="name a folder"):
        train(net(), TensorData(X, Y), None, Config(steps=1), run="")


def test_a_file_where_the_folder_should_be(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(ValueError, match="is a file: name a folder"):
        train(net(), TensorData(X, Y), None, Config(steps=1), run=tmp_path / "run")
    assert (tmp_path / "run").read_text() == "mine"


def test_a_disk_that_fills_up_while_training(tmp_path):
    """The run stops with the reason, and goes on from its last good checkpoint once there is room again."""
    data, config = TensorData(X, Y), Config(steps=6, save_every=2, lr=0.1)
    torch.manual_seed(0)
    big = MLP((2, 4000, 3))
    limit, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    def fill_up(outputs, targets):
        if fill_up.calls == 3:
            resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, limit[1]))
        fill_up.calls += 1
        return nn.functional.cross_entropy(outputs, targets, reduction="sum")

    fill_up.calls = -3  # the first calls check the fit
    try:
        with pytest.raises(RuntimeError, match=r"step 4 could not be written to .*File too large"):
            train(big, data, None, config, run=tmp_path, loss=fill_up)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert checkpoint.load_newest(tmp_path / "checkpoints")["progress"]["step"] == 2
    torch.manual_seed(0)
    resumed, straight = MLP((2, 4000, 3)), big
    torch.manual_seed(0)
    straight = MLP((2, 4000, 3))
    train(resumed, data, None, config, run=tmp_path)
    train(straight, data, None, config)
    assert all(map(torch.equal, resumed.state_dict().values(), straight.state_dict().values()))


@pytest.mark.parametrize("replacement", ["nothing", "another folder", "a file"])
def test_a_folder_that_is_moved_while_training(tmp_path, replacement):
    """Nothing is written in its place, the error says so, and back in its place it goes on."""
    run, aside = tmp_path / "run", tmp_path / "aside"
    config = Config(steps=6, save_every=2, log_every=2)

    def move(outputs, targets):
        if move.calls == 3:
            run.rename(aside)
            if replacement == "another folder":
                run.mkdir()
                (run / ".lock").touch()
            elif replacement == "a file":
                run.write_text("mine")
        move.calls += 1
        return nn.functional.cross_entropy(outputs, targets, reduction="sum")

    move.calls = -3  # the first calls check the fit
    with pytest.raises(RuntimeError, match=r"run is not the folder in which this run began.* start again to resume"):
        train(net(), TensorData(X, Y), None, config, run=run, loss=move)
    assert [path.name for path in tmp_path.rglob("run/*")] == [".lock"] * (replacement == "another folder")
    if replacement == "another folder":
        shutil.rmtree(run)
    elif replacement == "a file":
        run.unlink()
    aside.rename(run)
    assert checkpoint.load_newest(run / "checkpoints")["progress"]["step"] == 2
    assert train(net(), TensorData(X, Y), None, config, run=run).steps == 6


@pytest.mark.parametrize("name", ["log.jsonl", "run.json"])
def test_a_file_that_cannot_be_written(tmp_path, name):
    """The log and the metadata: the error names the folder, the reason and the next move."""
    train(net(), TensorData(X, Y), None, Config(steps=4, log_every=1, save_every=2), run=tmp_path)
    (tmp_path / f".tmp-{name}").mkdir()  # in the way of its next version
    before = snapshot(tmp_path)[name]
    with pytest.raises(RuntimeError, match=r"cannot be written to: .*Is a directory.* start again to resume"):
        train(net(), TensorData(X, Y), None, Config(steps=4, log_every=1, save_every=2), run=tmp_path)
    assert snapshot(tmp_path)[name] == before


def test_what_a_killed_save_left_is_gone_before_the_first_step(tmp_path):
    """On a full disk the next save may need its room."""
    left = tmp_path / "checkpoints" / ".tmp-step-000000009-1"
    left.parent.mkdir()
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
    config = Config(steps=4, save_every=2, dollars_per_hour=36.0)
    train(net(), TensorData(X, Y), None, config, run=tmp_path)
    metadata = json.loads((tmp_path / "run.json").read_text())
    assert Config(**metadata["config"]) == config and metadata["data"] == {"training examples": 64}
    leg = metadata["legs"][0]
    assert leg["from_step"] == 0 and leg["to_step"] == 4
    assert leg["fingerprint"]["torch"] == torch.__version__ and leg["fingerprint"]["threads"] == 1
    assert {"commit", "dirty", "hardware", "python", "numpy", "device"} <= leg["fingerprint"].keys()
    assert metadata["dollars"] == pytest.approx(metadata["seconds"] / 100) and metadata["seconds"] > 0


def test_resuming_on_other_threads_says_so(tmp_path, capsys):
    train(net(), TensorData(X, Y), None, Config(steps=4), run=tmp_path)
    torch.set_num_threads(2)
    train(net(), TensorData(X, Y), None, Config(steps=4), run=tmp_path)
    assert "resumed elsewhere (threads 1 → 2)" in capsys.readouterr().out
