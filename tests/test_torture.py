"""The short form of each trial; `make torture` runs the long one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from torture.trials import TRIALS

TORTURE = Path(__file__).with_name("torture")


def torture(*arguments: str) -> subprocess.CompletedProcess:
    line = [sys.executable, TORTURE, *arguments]
    return subprocess.run(line, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("trial", TRIALS)
def test_nothing_is_lost_and_nothing_wrong(trial):
    done = torture("--short", trial)
    assert done.returncode == 0, done.stdout + done.stderr
    if "not tried" in done.stdout:
        pytest.skip(done.stdout.splitlines()[1])
    tried, lost, wrong = map(int, re.search(r" +(\d+) +(\d+) +(\d+) ", done.stdout.splitlines()[1]).groups())
    assert tried >= TRIALS[trial][2] and (lost, wrong) == (0, 0)


@pytest.mark.slow
def test_an_unknown_trial_is_refused():
    done = torture("burn")
    assert done.returncode == 2 and "no trial is called burn: choose of kill" in done.stderr
