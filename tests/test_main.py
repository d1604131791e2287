"""The loop as a script: every field of Config is an option, and the same line resumes."""

import argparse
import json
import subprocess
import sys
from dataclasses import fields

import pytest

from utils.__main__ import add_train, main, option_of
from utils.loop.config import Config

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


def test_help_works_as_a_command():
    done = subprocess.run(
        [sys.executable, "-m", "utils", "train", "--help"], capture_output=True, text=True, check=True
    )
    assert "--save-every" in done.stdout
