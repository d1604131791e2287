"""A signal ends a run after the step, or in the middle of a validation, with everything saved; and Ctrl-C likewise."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.paths import ROOT
from helpers.resumable_run import Noisy, outcome, same
from torch import nn

from utils.data.workers import WARNINGS
from utils.loop import Config, evaluate, train
from utils.loop.checkpoint import find, load_newest
from utils.loop.signals import SIGTERM_EXIT

STEPS, EVERY = 12, 4


def build() -> nn.Module:
    """Something of everything that a step moves."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))


SETTINGS = {"batch_size": 16, "seed": 3, "lr": 3e-2, "schedule": "cosine", "ema": 0.9, "log_every": 2}
CONFIG = Config(steps=STEPS, val_every=EVERY, val_batch_size=8, **SETTINGS)


class Watch:
    """The loss of a run: counts its steps and the batches that it validates, and calls `at` before each of these."""

    def __init__(self, at=lambda step, batch: None):
        self.at, self.step, self.batch = at, 0, 0
        self.begun = False  # the trial before the first step is no validation

    def __call__(self, outputs, targets):
        if outputs.requires_grad and len(targets) == 16:
            self.begun, self.batch = True, 0
            self.step += 1
        elif self.begun:
            self.batch += 1
            self.at(self.step, self.batch)
        return nn.functional.cross_entropy(outputs, targets, reduction="sum")


def run(folder: Path | None = None, at=lambda step, batch: None, **options):
    watch = Watch(at)
    return train(build(), Noisy(), Noisy(), replace(CONFIG, **options), run=folder, loss=watch), watch


def sends(number: int, step: int, batch: int):
    """At this batch of the validation after this step of the process a signal comes; and nothing is validated after it."""

    def at(*place):
        assert place <= (step, batch) or place[0] > step + EVERY
        if place == (step, batch):
            os.kill(os.getpid(), number)

    return at


def stopped(folder: Path, at, kind=SystemExit, **options):
    with pytest.raises(kind) as left:
        run(folder, at, **options)
    return left.value


def moved_on(folder: Path) -> dict:
    return load_newest(folder / "checkpoints")["progress"]


@pytest.mark.parametrize("batch", [1, 3, 11])
@pytest.mark.parametrize("step", [4, 8, STEPS], ids=["first", "second", "last"])
def test_a_validation_is_abandoned_after_the_batch_at_hand_and_made_anew(tmp_path, step, batch):
    expected = outcome(run()[0])
    left = stopped(tmp_path, sends(signal.SIGTERM, step, batch))
    assert left.code == SIGTERM_EXIT
    assert (moved_on(tmp_path)["step"], moved_on(tmp_path)["validation_due"]) == (step, True)
    again, watch = run(tmp_path)
    assert same(outcome(again), expected) and watch.step == STEPS - step
    assert not moved_on(tmp_path)["validation_due"]
    assert run(tmp_path)[1].step == 0 and same(outcome(run(tmp_path)[0]), expected)


def test_a_validation_may_be_abandoned_again_and_again(tmp_path):
    expected = outcome(run()[0])
    stopped(tmp_path, sends(signal.SIGTERM, 4, 2))
    for batch in (2, 7):  # no step is made in these
        calls = [0]

        def loss(outputs, targets, batch=batch, calls=calls):
            calls[0] += not outputs.requires_grad and len(targets) == 8
            if calls[0] == batch:
                os.kill(os.getpid(), signal.SIGTERM)
            return nn.functional.cross_entropy(outputs, targets, reduction="sum")

        with pytest.raises(SystemExit):
            train(build(), Noisy(), Noisy(), CONFIG, run=tmp_path, loss=loss)
        assert calls[0] == batch and moved_on(tmp_path)["step"] == 4 and moved_on(tmp_path)["validation_due"]
    assert same(outcome(run(tmp_path)[0]), expected)


def test_a_validation_made_anew_may_end_the_run(tmp_path):
    """That of step 8 is the second without a better loss, after which patience is exhausted."""
    early = {"patience": 1, "min_delta": 100.0}
    expected = run(**early)[0]
    assert (expected.steps, expected.stopped_early) == (8, True)
    stopped(tmp_path, sends(signal.SIGTERM, 8, 5), **early)
    for _ in range(2):
        again, watch = run(tmp_path, **early)
        assert same(outcome(again), outcome(expected)) and (watch.step, again.stopped_early) == (0, True)


def test_a_signal_in_the_step_before_a_validation_does_not_begin_it(tmp_path):
    expected = outcome(run()[0])
    told = []

    class Told(Watch):
        def __call__(self, outputs, targets):
            total = super().__call__(outputs, targets)
            if self.step == EVERY and outputs.requires_grad:
                os.kill(os.getpid(), signal.SIGTERM)
            told.append((self.step, self.batch))
            return total

    with pytest.raises(SystemExit):
        train(build(), Noisy(), Noisy(), CONFIG, run=tmp_path, loss=Told())
    assert told[-1] == (EVERY, 0)
    assert same(outcome(run(tmp_path)[0]), expected)


@pytest.mark.parametrize("number", [*WARNINGS, signal.SIGINT])
def test_every_warning_and_ctrl_c_are_heeded_in_a_validation(tmp_path, number):
    expected = outcome(run()[0])
    left = stopped(tmp_path, sends(number, 8, 3), KeyboardInterrupt if number == signal.SIGINT else SystemExit)
    assert moved_on(tmp_path)["step"] == left.result.steps == 8
    assert same(outcome(run(tmp_path)[0]), expected)


@pytest.mark.parametrize("number", [signal.SIGCONT, signal.SIGWINCH, signal.SIGCHLD])
def test_signals_that_end_nothing_do_not_end_a_run(number):
    """Slurm sends CONT before TERM, to wake what was stopped."""
    assert run(at=lambda *_: os.kill(os.getpid(), number))[0].steps == STEPS


def test_after_a_signal_in_on_step_no_further_step_is_made(tmp_path):
    """It may take long, and a cluster does not wait."""
    expected = outcome(train(build(), Noisy(), None, CONFIG, loss=Watch()))
    watch = Watch()

    def look(record, model):
        if record["step"] == 6:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit):
        train(build(), Noisy(), None, CONFIG, run=tmp_path, loss=watch, on_step=look)
    assert watch.step == moved_on(tmp_path)["step"] == 6
    assert same(outcome(train(build(), Noisy(), None, CONFIG, run=tmp_path, loss=Watch())), expected)


class Told(Exception):
    """What a handler of the program's own raises."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR2])
def test_in_evaluate_alone_signals_act_as_usual(number):
    def tell(*_):
        raise Told

    before, batches = signal.signal(number, tell), []

    def loss(outputs, targets):
        batches.append(len(targets))
        if batches.count(8) == 2:
            os.kill(os.getpid(), number)
        return nn.functional.cross_entropy(outputs, targets, reduction="sum")

    try:
        with pytest.raises(Told):
            evaluate(nn.Linear(5, 2), Noisy(), batch_size=8, loss=loss)
    finally:
        signal.signal(number, before)
    assert batches.count(8) == 2


LIMITED = """
import resource, sys
from helpers import resumable_run
from utils.loop import Config, train
import torch

def limit(record, model):
    used = resource.getrusage(resource.RUSAGE_SELF)
    if record["step"] == 1:
        resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 1, resource.RLIM_INFINITY))

config = Config(steps=10**9, log_every=1, deterministic=False)
train(torch.nn.Linear(5, 2), resumable_run.Noisy(), None, config, run=sys.argv[1], on_step=limit)
"""


def test_a_used_up_share_of_cpu_time_is_heeded(tmp_path):
    """The kernel sends XCPU, whose usual action is to end the process at once."""
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests")))
    line = [sys.executable, "-c", LIMITED, str(tmp_path / "run")]
    done = subprocess.run(line, env=os.environ | {"PYTHONPATH": paths}, timeout=100, capture_output=True, text=True)
    again = -signal.SIGXCPU  # it comes every second, also when the run is over and the program about to end
    assert done.returncode in (SIGTERM_EXIT, again), done.stderr
    (newest, *_) = find(tmp_path / "run" / "checkpoints")[::-1]
    assert load_newest(tmp_path / "run" / "checkpoints")["progress"]["step"] == int(newest.name.split("-")[1]) > 0
