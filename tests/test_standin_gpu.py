"""What holds on every device, on a device that is not the CPU: tests/standin_gpu/README.md."""

import os
import subprocess
import sys

import pytest
from helpers.paths import ROOT
from standin_gpu import standin

CASES = sorted((ROOT / "tests" / "standin_gpu").glob("cases_*.py"))


@pytest.mark.nightly  # `make rehearse` runs it
@pytest.mark.slow
@pytest.mark.skipif(bool(standin.why_not()), reason=standin.why_not() or "")
def test_the_cases_hold_on_the_stand_in_gpu():
    """In one process of their own: the stand-in, once loaded, is the accelerator of all that follows."""
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *map(str, CASES)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(line, cwd=ROOT, env=environment | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert CASES and done.returncode == 0, done.stdout[-20_000:] + done.stderr[-2_000:]
    assert " skipped" not in done.stdout.splitlines()[-1], done.stdout


def test_what_the_stand_in_cannot_be_built_without_is_named(monkeypatch):
    if sys.platform == "linux":
        monkeypatch.setenv("PATH", "")
        monkeypatch.delenv("CXX", raising=False)
        assert "needs a C++ compiler" in standin.why_not()
    monkeypatch.setattr(sys, "platform", "win32")
    assert "built on Linux only, and this is win32" in standin.why_not()
