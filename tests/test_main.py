"""The loop as a script: every field of Config is an option, and the same line resumes."""

import argparse
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from helpers.paths import ROOT

from utils.__main__ import add_train, build_model, main, option_of, resumption
from utils.data.datasets import text_file
from utils.loop import checkpoint, evaluate
from utils.loop.config import Config
from utils.loop.run_folder import best_weights
from utils.loop.saved_run import read_run

SPIRAL = ["train", "--data", "spiral", "--steps", "20", "--lr", "0.01"]


def test_every_field_of_config_is_an_option_with_its_docstring():
    parser = argparse.ArgumentParser()
    add_train(parser)
    given = ["--run", "r", "--data", "spiral"]
    assert all(getattr(parser.parse_args(given), f.name) == f.default for f in fields(Config))
    shown = " ".join(parser.format_help().split())
    for field in fields(Config):
        assert option_of(field.name) in shown
    assert "micro-batches that a step's batch is split into" in shown
    changed = parser.parse_args([*given, "--log-every", "7", "--precision", "bf16", "--no-deterministic", "--lr", "1"])
    assert (changed.log_every, changed.precision, changed.deterministic, changed.lr) == (7, "bf16", False, 1.0)


def test_train_then_the_same_line_again(tmp_path, capsys):
    line = [*SPIRAL, "--run", str(tmp_path / "run")]
    assert main(line) == 0
    first = (tmp_path / "run" / "log.jsonl").read_text()
    assert json.loads(first.splitlines()[-1])["step"] == 20
    assert "test accuracy" in capsys.readouterr().out
    assert main(line) == 0
    assert (tmp_path / "run" / "log.jsonl").read_text() == first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--steps", "0"], "steps is 0"),
        (["--lr", "0.5"], "lr: 0.01 → 0.5"),
        (["--dropout", "0.5"], "dropout: 0.0 → 0.5"),
        (["--model", "cnn"], "--model cnn does not fit --data spiral"),
        (["--data", "no-such-file.txt"], "neither shakespeare, fashion, spiral nor a file"),
    ],
)
def test_a_mistake_is_answered_in_one_line(tmp_path, capsys, change, message):
    line = [*SPIRAL, "--run", str(tmp_path / "run")]
    assert main(line) == 0
    capsys.readouterr()
    assert main([*line, *change]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


def test_half_of_what_torchrun_sets_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert main([*SPIRAL, "--run", str(tmp_path / "run")]) == 2
    assert "WORLD_SIZE is 4, but RANK, LOCAL_RANK, MASTER_ADDR, MASTER_PORT are not set" in capsys.readouterr().err


def test_a_text_of_the_users(tmp_path, capsys):
    text = tmp_path / "mine.txt"
    text.write_text("abcd" * 200)
    options = ["--data", str(text), "--context", "8", "--steps", "30", "--lr", "0.01", "--run", str(tmp_path / "run")]
    assert main(["train", *options]) == 0
    records = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert records[-1]["val_loss"] < 0.5  # four letters in a fixed order: far below ln 4


@pytest.mark.slow
def test_help_works_as_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "utils", "train", "--help"], capture_output=True, text=True, check=True
    )
    assert "--save-every" in done.stdout


# ---- a run, afterwards ----------------------------------------------------------------------------------------------

TEXT = "abcd" * 200
SHORT = [
    "--dropout",
    "0.1",
    "--context",
    "8",
    "--lr",
    "0.01",
    "--val-every",
    "10",
    "--log-every",
    "5",
    "--save-every",
    "10",
]


@pytest.fixture(scope="module")
def text_run(tmp_path_factory):
    """A run that has learnt that after a comes b, after b c, after c d, after d a."""
    folder = tmp_path_factory.mktemp("text")
    (folder / "mine.txt").write_text(TEXT)
    run = folder / "run"
    assert main(["train", "--data", str(folder / "mine.txt"), "--run", str(run), "--steps", "40", *SHORT]) == 0
    return run


def test_generate_goes_on_as_the_text_does(text_run, capsys):
    assert main(["generate", "--run", str(text_run), "--prompt", "bc", "--length", "12"]) == 0
    written = capsys.readouterr()
    assert written.out == "bcdabcdabcdabc\n"
    assert re.search(r"weights of step \d+, the best validation, loss 0\.\d+", written.err)


def test_generate_takes_the_best_weights_or_the_newest(text_run, capsys):
    best, newest = (read_run(text_run).weights(newest)[0] for newest in (False, True))
    assert all(torch.equal(best[name], tensor) for name, tensor in best_weights(text_run).items())
    assert read_run(text_run).weights(newest=True)[1] == "step 40, the newest"
    saved = checkpoint.load_newest(text_run / "checkpoints")["model"]
    assert saved.keys() == newest.keys() and all(torch.equal(saved[name], newest[name]) for name in saved)
    assert main(["generate", "--run", str(text_run), "--prompt", "a", "--length", "1", "--newest"]) == 0
    assert "weights of step 40, the newest" in capsys.readouterr().err


def test_a_run_that_has_not_validated_yet_gives_its_newest_weights(text_run, tmp_path):
    for name in ("run.json", "checkpoints"):
        (tmp_path / name).symlink_to(text_run / name)
    run = read_run(tmp_path)
    assert run.records == [] and run.weights()[1].startswith("step 40, the best validation")
    (tmp_path / "checkpoints").unlink()
    (tmp_path / "checkpoints").mkdir()
    (newest,) = (text_run / "checkpoints").glob("step-000000040-*")
    (tmp_path / "checkpoints" / newest.name).symlink_to(newest)
    assert run.weights()[1] == "step 40, the newest, since this run has not been validated yet"
    (tmp_path / "checkpoints" / newest.name).unlink()
    with pytest.raises(FileNotFoundError, match="holds no checkpoint yet"):
        run.weights()


def test_the_run_rebuilds_its_model(text_run):
    """And it scores what the log says that it did."""
    run = read_run(text_run)
    model = build_model(run.labels)
    model.load_state_dict(best_weights(text_run))
    (best,) = run.saved_steps("best")
    (loss,) = (record["val_loss"] for record in run.records if record["step"] == best and "val_loss" in record)
    assert evaluate(model, text_file(text_run.parent / "mine.txt", context=8).val).loss == loss


ELSEWHERE = """
import sys, torch
extra = {"run.json": ""}
model = torch.export.load(sys.argv[1], extra_files=extra).module()
torch.save(model(torch.load("tokens.pt")).detach(), "logits.pt")
print([name for name in sys.modules if name.split(".")[0] == "utils"], len(extra["run.json"]) > 100)
"""


@pytest.mark.slow
def test_export_leaves_a_file_that_runs_without_the_class(text_run, tmp_path, capsys):
    file = tmp_path / "text.pt2"
    assert main(["export", "--run", str(text_run), "--to", str(file)]) == 0
    assert f"torch.export.load({str(file)!r}).module()" in capsys.readouterr().out
    tokens = torch.tensor([[0, 1, 2, 3, 0], [3, 0, 1, 2, 3], [1, 2, 3, 0, 1]])
    torch.save(tokens, tmp_path / "tokens.pt")
    line = [sys.executable, "-I", "-c", ELSEWHERE, str(file)]
    done = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "[] True\n"), done.stderr
    model = build_model(read_run(text_run).labels).eval()
    model.load_state_dict(best_weights(text_run))
    torch.testing.assert_close(torch.load(tmp_path / "logits.pt"), model(tokens))
    assert main(["export", "--run", str(text_run), "--to", str(file)]) == 2
    assert "exists: name a new file.pt2" in capsys.readouterr().err


def test_show_tells_what_the_run_s_files_say(text_run, capsys):
    assert main(["show", "--run", str(text_run)]) == 0
    shown = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    metadata, records = json.loads((text_run / "run.json").read_text()), read_run(text_run).records
    assert shown["run"] == f"{text_run}, step 40 of 40"
    assert "lr 0.01" in shown["config"] and "batch_size" not in shown["config"]  # what differs from the default
    assert metadata["sessions"][-1]["fingerprint"]["hardware"] in shown["hardware"]
    validated = [record["val_loss"] for record in records if "val_loss" in record]
    assert f"validation {validated[-1]:.4f}" in shown["last"] and f"loss {min(validated):.4f}" in shown["best"]
    assert "step 20, step 30, step 40" in shown["checkpoints"] and "model gpt" in shown["data"]
    picture = Path(shown["curves"])
    assert picture.parent == text_run and picture.read_text().startswith("<?xml")


def test_show_takes_a_run_of_any_kind_and_a_line_that_is_half_written(text_run, tmp_path):
    (tmp_path / "run.json").symlink_to(text_run / "run.json")
    (tmp_path / "log.jsonl").write_text((text_run / "log.jsonl").read_text()[:-5])
    assert read_run(tmp_path).records == read_run(text_run).records[:-1]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["generate", "--prompt", "xyz"], "the prompt has 'xyz', which the model has never seen"),
        (["generate", "--prompt", ""], "the prompt is empty"),
        (["generate", "--prompt", "a", "--temperature", "-1"], "temperature -1.0: both must be at least 0"),
        (["export", "--to", "model.onnx"], "--to model.onnx is a name of another kind: name a new file.pt2"),
    ],
)
def test_what_cannot_be_done_with_a_run_is_refused_in_one_line(text_run, capsys, line, message):
    assert main([*line, "--run", str(text_run)]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert message in error


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys):
    for command in (["show"], ["generate", "--prompt", "a"], ["export", "--to", "a.pt2"]):
        assert main([*command, "--run", str(tmp_path)]) == 2
        assert "does not hold a run" in capsys.readouterr().err


def test_a_run_of_another_model_says_how_to_load_it(text_run, tmp_path, capsys):
    metadata = json.loads((text_run / "run.json").read_text())
    metadata["data"] = {"training examples": 3}
    (tmp_path / "run.json").write_text(json.dumps(metadata))
    assert main(["generate", "--prompt", "a", "--run", str(tmp_path)]) == 2
    assert "load best_weights(folder) into it" in capsys.readouterr().err


@pytest.mark.slow
def test_the_readme_s_commands_for_a_run_work_in_their_order(tmp_path, monkeypatch, capsys):
    """But for export, which is tested above: after fewer steps of the run that the README trains."""
    monkeypatch.chdir(tmp_path)
    lines = [shlex.split(line, comments=True) for line in re.findall(r"^python -m (utils .+)$", README, re.MULTILINE)]
    (text,) = (line for line in lines if line[:4] == ["utils", "train", "--run", "runs/text"])
    Path("requirements.txt").symlink_to(ROOT / "requirements.txt")
    assert main([*text[1:], "--steps", "2"]) == 0
    for line in lines:
        if line[1] in ("show", "generate"):
            assert main(line[1:]) == 0
    assert "\ntorch==" in capsys.readouterr().out and Path("runs/text/curves.svg").exists()


README = (ROOT / "utils" / "loop" / "README.md").read_text(encoding="utf-8")


# ---- what it says ---------------------------------------------------------------------------------------------------


def test_each_log_record_is_a_line(tmp_path, capsys):
    line = [*SPIRAL, "--log-every", "8", "--schedule", "linear", "--run", str(tmp_path / "run")]
    assert main(line) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    records = [record for record in read_run(tmp_path / "run").records if "loss" in record]
    assert [record["step"] for record in records] == [8, 16, 20]
    for shown, record in zip(lines, records, strict=True):
        start = f"step {record['step']}/20   loss {record['loss']:.4f}   lr {record['lr']:.3g}   gradient norm "
        assert shown.startswith(start) and shown.endswith(" s left")
    assert lines[-1].endswith("   0 s left")


def test_with_a_progress_bar_there_are_no_lines(tmp_path, capsys):
    assert main([*SPIRAL, "--progress", "--run", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr()
    assert "step 20/20" not in shown.out and "20/20" in shown.err


@pytest.mark.slow
def test_sigterm_says_what_was_saved_and_where_the_run_goes_on(tmp_path):
    line = [sys.executable, "-m", "utils", *SPIRAL[:3], "--steps", "100000", "--log-every", "5", "--run", "run"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(line, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as process:
        begun = process.stdout.readline()
        while not (tmp_path / "run" / "log.jsonl").exists():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 143
    assert re.match(r"run: mlp with [\d,]+ parameters, 1,400 examples, 100,000 steps", begun)
    (saved,) = read_run(tmp_path / "run").saved_steps()
    assert (
        output.splitlines()[-1]
        == f"stopped by a signal: step {saved:,} is saved in run; the same command goes on from there"
    )


def test_where_only_a_best_checkpoint_was_saved_the_run_goes_on_from_it(text_run, tmp_path):
    """As older versions did: a best checkpoint of theirs holds a full state."""
    (tmp_path / "run.json").symlink_to(text_run / "run.json")
    (tmp_path / "checkpoints").mkdir()
    newest = checkpoint.find(text_run / "checkpoints")[-1]
    (tmp_path / "checkpoints" / newest.name.replace("step", "best")).symlink_to(newest)
    assert resumption(str(tmp_path)).startswith("step 40 is saved")
    assert read_run(tmp_path).weights(newest=True)[1] == "step 40, the newest"


def test_ctrl_c_before_anything_was_saved_says_so(tmp_path, capsys, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("utils.__main__.train", interrupted)
    assert main([*SPIRAL, "--run", str(tmp_path / "run")]) == 130
    assert "nothing was saved yet; the same command starts again" in capsys.readouterr().err
