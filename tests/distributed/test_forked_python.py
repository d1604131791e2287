"""A program in a fork of a Python that has imported torch does what it does in a Python of its own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAMS = {
    "ends": "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ['TOLD'], __name__, sys.stdin.read())",
    "exits": "import sys; print('bye', file=sys.stderr); sys.exit(3)",
    "raises": "raise KeyError('here')",
    "says goodbye": "import atexit; atexit.register(print, 'at the end')",
    "waits for its thread": "from threading import Timer; Timer(0.2, print, ['late']).start()",
    "is killed": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "aborts": "import os; os.abort()",
    "is interrupted": "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
}
WAITS = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print(os.getpid(), flush=True)
time.sleep(600)
"""


def written(folder: Path, program: str) -> str:
    path = folder / "program.py"
    path.write_text(program)
    return str(path)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_forked_program_ends_and_prints_as_a_new_one(tmp_path, forked_python, name):
    file = written(tmp_path, PROGRAMS[name])
    pipes = {"input": "asked", "capture_output": True, "text": True}
    new, forked = (
        subprocess.run([*python, file, "-a", "b c"], cwd=tmp_path, env=os.environ | {"TOLD": "so"}, **pipes)
        for python in ([sys.executable], forked_python)
    )
    assert (forked.returncode, forked.stdout) == (new.returncode, new.stdout)
    assert forked.stderr.splitlines()[-1:] == new.stderr.splitlines()[-1:]


@pytest.mark.slow
def test_a_forked_program_has_imported_torch_and_shares_no_random_numbers(tmp_path, forked_python):
    file = written(tmp_path, "import sys; print('torch' in sys.modules); import random; print(random.random())")
    first, second = (subprocess.check_output([*forked_python, file], text=True).split() for _ in range(2))
    assert first[0] == second[0] == str(len(forked_python) > 1)  # on a machine with a GPU it is a Python as any other
    assert first[1] != second[1]


@pytest.mark.slow
def test_signals_reach_a_forked_program_and_it_ends_with_its_caller(tmp_path, forked_python):
    line = [*forked_python, written(tmp_path, WAITS)]
    with (
        subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as told,
        subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as gone,
    ):
        told.stdout.readline()
        told.send_signal(signal.SIGTERM)
        assert told.wait() == 7
        program = Path("/proc", gone.stdout.readline().strip())
        assert program.exists() or not Path("/proc").exists()
        gone.kill()
        deadline = time.monotonic() + 60
        while program.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not program.exists()
