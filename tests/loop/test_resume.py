"""A run that was stopped anywhere and resumed in another process ends with the same bits."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from helpers import resumable_run
from helpers.paths import ROOT
from torch import nn

from utils.data import TensorData
from utils.loop import Config, checkpoint, monitor, train
from utils.loop import log as logs
from utils.loop.log import MEASURED
from utils.loop.metrics import cross_entropy_sum
from utils.loop.saved_run import read_run

TRAIN = [
    sys.executable,
    "-m",
    "utils",
    "train",
    "--data",
    "spiral",
    "--steps",
    "400",
    "--lr",
    "1e-2",
    "--dropout",
    "0.1",
]
TRAIN += ["--ema", "0.99", "--clip", "0.5", "--save-every", "10", "--val-every", "50", "--log-every", "10"]


@pytest.fixture(scope="module")
def uninterrupted():
    torch.set_num_threads(1)
    pairs = {case[:2] for case in resumable_run.CASES}
    return {pair: resumable_run.outcome(resumable_run.run(None, *pair)) for pair in pairs}


def stop(case: tuple, folder: Path) -> None:
    *settings, moment = case
    with pytest.raises(resumable_run.Stop):
        resumable_run.run(folder, *settings, stop_after=resumable_run.STOPS[moment])
    newest = checkpoint.load_newest(folder / "checkpoints")
    assert newest["progress"]["step"] == resumable_run.STOPS[moment]


def resume_in_a_new_process(folder: Path) -> None:
    script = ROOT / "tests" / "helpers" / "resumable_run.py"
    subprocess.run([sys.executable, script, folder], check=True, env=os.environ | {"OMP_NUM_THREADS": "1"})


@pytest.mark.slow
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.nightly)])
def test_resume_in_a_new_process_gives_the_same_bits(tmp_path, uninterrupted, every):
    """Every fifth case still has each precision, accumulation, number of workers and moment."""
    cases = resumable_run.CASES[::every]
    for case in cases:
        stop(case, tmp_path / resumable_run.name_of(case))
    resume_in_a_new_process(tmp_path)
    differ = [
        case
        for case in cases
        if not resumable_run.same(
            torch.load(tmp_path / resumable_run.name_of(case) / "outcome"), uninterrupted[case[:2]]
        )
    ]
    tried, possible = ([set(each) for each in zip(*some, strict=True)] for some in (cases, resumable_run.CASES))
    assert tried == possible
    assert len(resumable_run.CASES) == 54 and not differ


def test_what_differs_is_noticed(uninterrupted):
    """The comparison above can fail: one flipped bit in the average, one record, another precision."""
    reference = uninterrupted["fp32", 1]
    assert resumable_run.same(reference, reference)
    flipped = {**reference, "ema": {k: v.clone() for k, v in reference["ema"].items()}}
    flipped["ema"]["0.bias"][0] = torch.nextafter(flipped["ema"]["0.bias"][0], torch.tensor(9.0))
    assert not resumable_run.same(reference, flipped)
    assert not resumable_run.same(reference, {**reference, "history": reference["history"][:-1]})
    assert not resumable_run.same(reference, uninterrupted["bf16", 1])
    assert not resumable_run.same(reference, uninterrupted["fp32", 4])  # rounding, and other dropout masks


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["optimizer", "rng", "scheduler", "ema", "train_loss", "progress", "nothing"])
def test_every_part_of_the_state_is_needed(tmp_path, uninterrupted, lost):
    """Leave one part of the checkpoint as a fresh run has it, and the resumed run is another run."""
    case = ("fp32", 1, "none", "mid-epoch")
    stop(case, tmp_path)
    saved = checkpoint.load_newest(tmp_path / "checkpoints")
    with pytest.raises(resumable_run.Stop):
        resumable_run.run(tmp_path / "fresh", "fp32", 1, stop_after=1)
    fresh = checkpoint.load_newest(tmp_path / "fresh" / "checkpoints")
    if lost == "progress":
        saved["progress"]["step"] += 1
    elif lost == "train_loss":
        saved["train_loss"] = (0.0, 0.0)
    elif lost != "nothing":
        saved[lost] = fresh[lost]
    checkpoint.save(tmp_path / "checkpoints", 10**8, saved)
    assert (lost == "nothing") == resumable_run.same(
        resumable_run.outcome(resumable_run.run(tmp_path, "fp32", 1)), uninterrupted["fp32", 1]
    )


def final_state(run: Path) -> dict:
    saved = checkpoint.load_newest(run / "checkpoints")
    parts = {name: saved[name] for name in ("model", "ema", "scheduler", "progress")}
    del parts["progress"]["seconds"]
    return parts | {"optimizer": saved["optimizer"]["state"], "rng": saved["rng"]["torch"]}


def flat(tree, path: str = "") -> dict[str, object]:
    """Nested containers as one dict of leaves, tensors as lists, so that == compares every number."""
    if isinstance(tree, dict | list | tuple):
        items = tree.items() if isinstance(tree, dict) else enumerate(tree)
        return {key: leaf for name, child in items for key, leaf in flat(child, f"{path}/{name}").items()}
    return {path: tree.tolist() if isinstance(tree, torch.Tensor) else tree}


def history(run: Path) -> list[dict]:
    records = map(json.loads, (run / "log.jsonl").read_text().splitlines())
    return [{k: v for k, v in record.items() if k != MEASURED} for record in records]


@pytest.mark.parametrize("block", [1, 7, 64, 1 << 16])
@pytest.mark.parametrize(
    ("tail", "kept"),
    [
        (b"", b""),
        (b'{"step": 6}\n{"step": 7}\n{"st', b""),
        (b'17\n{"a": 1}\n\xff\xfe\n\n', b""),
        (b'{"step": 5, "val_loss": 1.0}', b'{"step": 5, "val_loss": 1.0}\n'),  # all but the end of the line was written
    ],
)
def test_a_log_is_cut_behind_the_last_record_up_to_the_step(tmp_path, monkeypatch, block, tail, kept):
    monkeypatch.setattr(logs, "BLOCK", block)
    path = tmp_path / "log.jsonl"
    whole = b"".join(b'{"step": %d}\n' % step for step in range(1, 6))
    path.write_bytes(whole + tail)
    log = logs.Log(path)
    log.resume(5)
    assert path.read_bytes() == whole + kept
    log.add(step=6)
    expected = [json.loads(line) for line in (whole + kept + b'{"step": 6}\n').splitlines()]
    assert log.records == expected and path.read_bytes() == whole + kept + b'{"step": 6}\n'
    log.add(step=7)
    assert log.records == [*expected, {"step": 7}]


def test_a_log_without_a_record_up_to_the_step_is_emptied(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"step": 8}\n{"step": 9}\n')
    log = logs.Log(path)
    log.resume(5)
    assert log.records == [] and path.read_bytes() == b""


def test_the_history_outlives_the_folder(tmp_path):
    run = tmp_path / "run"
    whole = resumable_run.run(run, "fp32", 1)
    again = resumable_run.run(run, "fp32", 1)
    shutil.rmtree(run)
    assert again.history == whole.history and len(again.history) == resumable_run.STEPS // 2 + resumable_run.STEPS // 5


def start(run: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [*TRAIN, "--run", str(run)], stdout=subprocess.DEVNULL, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )


@pytest.fixture(scope="module")
def reference_run(tmp_path_factory):
    run = tmp_path_factory.mktemp("reference") / "run"
    assert start(run).wait() == 0
    return run


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGKILL, -9), (signal.SIGTERM, 143)])
def test_killed_twice_and_started_again_it_ends_with_the_same_bits(tmp_path, reference_run, number, code):
    run = tmp_path / "run"
    for _ in range(2):
        process = start(run)
        before = len(history(run)) if run.exists() and (run / "log.jsonl").exists() else 0
        deadline = time.monotonic() + 600
        while not (run / "log.jsonl").exists() or len(history(run)) < before + 4:
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.002)
        process.send_signal(number)
        assert process.wait() == code
    assert start(run).wait() == 0
    ours, theirs = final_state(run), final_state(reference_run)
    torch.testing.assert_close(ours.pop("rng"), theirs.pop("rng"), rtol=0, atol=0)
    assert flat(ours) == flat(theirs)
    assert history(run) == history(reference_run)


def test_a_finished_run_is_not_run_again(tmp_path):
    first = resumable_run.outcome(resumable_run.run(tmp_path, "fp32", 1))
    files = {p: p.stat().st_mtime_ns for p in (tmp_path / "checkpoints").iterdir()}
    again = resumable_run.outcome(resumable_run.run(tmp_path, "fp32", 1))
    assert resumable_run.same(first, again)
    assert files == {p: p.stat().st_mtime_ns for p in (tmp_path / "checkpoints").iterdir()}


def test_a_damaged_newest_checkpoint_is_named_and_the_one_before_it_used(tmp_path, uninterrupted, capsys):
    stop(("fp32", 1, "none", "mid-epoch"), tmp_path)
    newest = checkpoint.find(tmp_path / "checkpoints")[-1]
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    result = resumable_run.outcome(resumable_run.run(tmp_path, "fp32", 1))
    assert newest.name in capsys.readouterr().out
    assert resumable_run.same(result, uninterrupted["fp32", 1])


def test_stopping_in_the_middle_of_a_save_loses_nothing(tmp_path, uninterrupted):
    """What a crash inside a save leaves is a temporary file; it is swept away and never read."""
    stop(("fp32", 1, "none", "mid-epoch"), tmp_path)
    folder = tmp_path / "checkpoints"
    newest = checkpoint.find(folder)[-1]
    torn = folder / ".tmp-step-000000010-1"
    torn.write_bytes(newest.read_bytes()[:1000])
    shutil.copy(newest, folder / "step-000000010.pt")  # a name that says nothing of its bytes is none of ours
    assert resumable_run.same(resumable_run.outcome(resumable_run.run(tmp_path, "fp32", 1)), uninterrupted["fp32", 1])
    assert not torn.exists()


def test_the_rate_of_the_first_record_after_a_resume_counts_what_was_trained_since(tmp_path, monkeypatch):
    """A clock that moves by one second a step: 8 targets a step are 8 targets a second, before and after."""
    steps = []
    monkeypatch.setattr(monitor.time, "perf_counter", lambda: float(len(steps)))
    data = TensorData(torch.randn(64, 2), torch.randint(0, 3, (64,)))
    config = Config(steps=12, batch_size=8, log_every=6, save_every=2, device="cpu")

    def loss(outputs, targets):
        if outputs.requires_grad:
            steps.append(len(targets))
        if len(steps) == stop:
            raise KeyboardInterrupt
        return cross_entropy_sum(outputs, targets)

    model, stop = nn.Linear(2, 3), 5
    with pytest.raises(KeyboardInterrupt):
        train(model, data, None, config, run=tmp_path, loss=loss)
    stop = None
    records = train(nn.Linear(2, 3), data, None, config, run=tmp_path, loss=loss).history
    assert [record[MEASURED]["targets_per_second"] for record in records] == [8.0, 8.0]


@pytest.mark.parametrize("ignore_index", [-100, 0])
@pytest.mark.parametrize("resumed", [False, True])
def test_the_rate_counts_labels_whatever_they_weigh(tmp_path, monkeypatch, ignore_index, resumed):
    """By the same clock: of 64 labels a step those that count, of classes that weigh 10, 20 and 30."""
    steps = []
    monkeypatch.setattr(monitor.time, "perf_counter", lambda: float(len(steps)))
    labels = torch.tensor([0, 1, 2, 1, 0, 2, 1, 1] * 8)
    data = TensorData(torch.randn(64, 2), labels)
    loss = nn.CrossEntropyLoss(torch.tensor([10.0, 20.0, 30.0]), ignore_index=ignore_index)
    config = Config(steps=12, batch_size=64, log_every=6, save_every=2, device="cpu")

    class Counting(nn.Linear):
        def forward(self, x):
            if torch.is_grad_enabled() and self.training:
                steps.append(len(x))
            if len(steps) == stop:
                raise KeyboardInterrupt
            return super().forward(x)

    stop = 5
    if resumed:
        with pytest.raises(KeyboardInterrupt):
            train(Counting(2, 3), data, None, config, run=tmp_path, loss=loss)
    stop = None
    records = train(Counting(2, 3), data, None, config, run=tmp_path, loss=loss).history
    each = labels.ne(ignore_index).sum().item()
    assert [record[MEASURED]["targets_per_second"] for record in records] == [each, each]


# ---- folders of older versions --------------------------------------------------------------------------------------

ONCE_SETTINGS = {"dollars_per_hour": 36.0, "peak_flops": 1e12, "progress": True}


def make_older(folder: Path, **progress) -> None:
    """Rewrite the folder of a run as an older version would have left it, with these values under its old names."""
    metadata = json.loads((folder / "run.json").read_text())
    metadata["config"] |= ONCE_SETTINGS
    del metadata["dollars_per_hour"]
    (folder / "run.json").write_text(json.dumps(metadata))
    for path in checkpoint.find(folder / "checkpoints", kind=None):
        saved = checkpoint.load(path)
        if "config" not in saved:
            continue  # best weights alone
        saved["config"] |= ONCE_SETTINGS
        for former, name in (("parts", "n_micro_batches"), ("worse", "validations_without_improvement")):
            saved["progress"][former] = progress.get(former, saved["progress"].pop(name))
        path.unlink()
        checkpoint.save(folder / "checkpoints", saved["progress"]["step"], saved, path.name.partition("-")[0])


class Watched(nn.Linear):
    """Keeps the sizes of the batches that it trains on."""

    def __init__(self):
        super().__init__(2, 2)
        self.sizes = []

    def forward(self, x):
        if self.training and torch.is_grad_enabled():
            self.sizes.append(len(x))
        return super().forward(x)


def test_a_run_of_an_older_version_goes_on_where_it_was(tmp_path):
    """It had split its batches in 4 when memory ran out, and had had 5 of the 7 validations that its patience allows."""
    x = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))
    data, wrong = TensorData(x, (x[:, 0] > 0).long()), TensorData(x, (x[:, 0] <= 0).long())
    settings = {"batch_size": 32, "lr": 0.1, "val_every": 1, "patience": 7, "save_every": 1}
    train(Watched(), data, wrong, Config(steps=6, **settings), run=tmp_path)
    make_older(tmp_path, parts=4, worse=5)
    model = Watched()
    result = train(model, data, wrong, Config(steps=20, **settings), run=tmp_path, dollars_per_hour=36.0)
    assert model.sizes == [32] * 6 + [8] * 8 and (result.steps, result.stopped_early) == (8, True)


def test_the_cost_of_an_older_run_is_still_shown(tmp_path):
    data = TensorData(torch.randn(64, 2), torch.zeros(64).long())
    train(Watched(), data, None, Config(steps=2), run=tmp_path, dollars_per_hour=3.6e6)
    dollars = json.loads((tmp_path / "run.json").read_text())["dollars"]
    shown = read_run(tmp_path).summary()
    assert shown["cost"] == f"${dollars:,.2f} at $3.6e+06 an hour"
    make_older(tmp_path)
    shown_of_older = read_run(tmp_path).summary()
    assert shown_of_older["cost"] == f"${dollars:,.2f} at $36 an hour"
    assert shown_of_older["config"] == shown["config"]
