"""Ranks from a notebook: their script holds what they need, and whatever they do, all of them end."""

import math
import os
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from helpers.paths import ROOT

from utils.atomic_write import write_text
from utils.checks import raises
from utils.distributed import launch
from utils.distributed.launch import on_ranks, script_of, torchrun

FACTOR = 3
MODEL = torch.nn.Linear(1, 1)


def times(number, factor=FACTOR):
    return sum(later * factor for _, later in pairwise([0, number]))


def summed(start):
    total = torch.tensor([times(start) + dist.get_rank()])
    dist.all_reduce(total)
    print("the sum is", total.item())
    return {"sum": total, "process": os.getpid()}


def hopeless():
    return MODEL


ENDLESS, TENSORS, PLAIN = math.inf, {"w": torch.ones(2)}, {"shapes": [(2, 3), torch.float32]}


class Notebook:
    """As a class that a notebook defines."""


Notebook.__module__ = "__main__"


def endless():
    return ENDLESS


def tensors():
    return TENSORS


def instance():
    return Notebook()


def plain():
    return PLAIN


def holds_a_class():
    class Inner:
        value = 3

    return Inner.value


def crashes():
    if dist.get_rank() == 1:
        raise KeyError("lost")
    time.sleep(600)


def hangs(file):
    write_text(Path(f"{file}{os.environ['RANK']}"), str(os.getpid()))  # whole at once: another process waits for it
    time.sleep(600)


def is_killed():
    if os.environ["RANK"] == "0":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(600)


def told():
    return [os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR")]


def lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def gone(processes: list[int]) -> bool:
    """Whether they are all gone within a minute: a killed process stays for as long as its parent has not looked."""
    deadline = time.monotonic() + 60
    while any(map(lives, processes)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(lives, processes))


def test_a_script_holds_what_its_function_names():
    script = script_of(summed)
    for part in ("from itertools import pairwise", "FACTOR = 3", "def times(", "def summed(", "summed(*arguments)"):
        assert part in script
    assert "MODEL" not in script and script.index("FACTOR = 3") < script.index("def times(")
    compile(script, "script", "exec")


def test_a_script_keeps_its_own_name():
    """A class in the function reads __name__; with that of this module the script would run nothing, and end well."""
    names = {"__name__": "another"}  # so that the function is made, and not called
    exec(compile(script_of(holds_a_class), "script", "exec"), names)
    assert names["__name__"] == "another" and names["holds_a_class"]() == 3


def test_a_script_refuses_what_cannot_be_written_down():
    with raises(ValueError, "hopeless uses MODEL, a Linear, which cannot be written into a script"):
        script_of(hopeless)
    for function, named in (
        (endless, "ENDLESS, a float"),
        (tensors, "TENSORS, a dict"),
        (instance, "Notebook, a type"),
    ):
        with raises(ValueError, f"{function.__name__} uses {named}, which cannot be written into a script"):
            script_of(function)
    assert "PLAIN = {'shapes': [(2, 3), torch.float32]}" in script_of(plain)


@pytest.mark.slow
def test_ranks_reach_each_other_and_return_what_they_computed(capsys):
    ended = on_ranks(3, summed, 5)
    assert [rank.result["sum"].item() for rank in ended] == [3 * 5 * FACTOR + 3] * 3
    assert [rank.output for rank in ended] == ["the sum is 48\n"] * 3
    assert sorted(capsys.readouterr().out.splitlines()) == [f"[rank {rank}] the sum is 48" for rank in range(3)]
    processes = [rank.result["process"] for rank in ended]
    assert len({*processes, os.getpid()}) == 4 and gone(processes)


@pytest.mark.slow
def test_ranks_are_told_what_torchrun_tells():
    ended = on_ranks(2, told, group=False, LOCAL_RANK={1: "7"})
    assert [rank.result for rank in ended] == [["0", "2", "0", "127.0.0.1"], ["1", "2", "7", "127.0.0.1"]]


@pytest.mark.slow
def test_a_rank_that_crashes_ends_the_others():
    began = time.monotonic()
    with raises(RuntimeError, "KeyError: 'lost'"):
        on_ranks(2, crashes, grace=1)
    ended = on_ranks(2, crashes, check=False, grace=1)
    assert [rank.code for rank in ended] == [-signal.SIGKILL, 1] and time.monotonic() - began < 60
    assert ended[1].output.startswith("Traceback") and "launch.py" not in ended[1].output


@pytest.mark.slow
def test_ranks_that_hang_are_killed_after_their_time(tmp_path):
    ended = on_ranks(2, hangs, str(tmp_path / "rank"), group=False, check=False, seconds=3)
    assert [rank.code for rank in ended] == [-signal.SIGKILL] * 2
    assert gone([int(file.read_text()) for file in tmp_path.iterdir()])


@pytest.mark.slow
def test_a_killed_rank_is_reported_as_such():
    ended = on_ranks(2, is_killed, group=False, check=False, grace=0.5)
    assert [rank.code for rank in ended] == [-signal.SIGKILL] * 2


@pytest.mark.slow
def test_ranks_and_their_server_end_with_the_process_that_asked(tmp_path):
    """Killed, it cannot tidy up after itself."""
    start = "import test_launch as t; print(t.launch._address(), flush=True); "
    code = start + f"t.on_ranks(2, t.hangs, {str(tmp_path / 'r')!r}, group=False)"
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent), str(ROOT / "tests")])
    }
    asking = subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True)
    path = Path(asking.stdout.readline().strip())
    deadline = time.monotonic() + 600
    while len(list(tmp_path.glob("r*"))) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    processes = [int(file.read_text()) for file in tmp_path.iterdir()]
    assert len(processes) == 2 and path.exists()
    asking.kill()
    asking.wait()
    asking.stdout.close()
    assert gone(processes)
    while path.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not path.exists()


@pytest.mark.slow
def test_an_interrupted_cell_leaves_the_server_for_the_next_one(tmp_path):
    """Jupyter interrupts all processes of a notebook at once, and so does a terminal."""
    code = f"""
import os, signal, threading, time
from pathlib import Path
from test_launch import hangs, told
from utils.distributed.launch import on_ranks

def interrupt():
    while not Path({str(tmp_path / "0")!r}).exists():
        time.sleep(0.05)
    os.killpg(0, signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it
threading.Thread(target=interrupt, daemon=True).start()
try:
    on_ranks(1, hangs, {str(tmp_path)!r} + "/", group=False)
except KeyboardInterrupt:
    print(on_ranks(1, told, group=False)[0].result[:2])
"""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([*sys.path, str(Path(__file__).parent), str(ROOT / "tests")])
    }
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        start_new_session=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.stdout == "['0', '1']\n", run.stderr
    assert run.stderr == ""
    assert gone([int((tmp_path / "0").read_text())])


@pytest.mark.slow
@pytest.mark.parametrize("forked", [False, True])
def test_torchrun_runs_the_script_and_says_how_it_ended(tmp_path, monkeypatch, forked_python, forked):
    if forked:
        monkeypatch.setenv(launch.PYTHON, "\n".join(forked_python))
    script = tmp_path / launch.SCRIPT
    script.write_text(script_of(told, group=False))
    torch.save((), tmp_path / "arguments.pt")
    assert torchrun(script, str(tmp_path), world=2).code == 0
    assert [torch.load(tmp_path / f"{rank}.pt")[:3] for rank in range(2)] == [["0", "2", "0"], ["1", "2", "1"]]
    script.write_text("raise SystemExit(3)")
    assert torchrun(script, world=1).code == 1
