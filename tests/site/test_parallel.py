"""Tasks in forks: what comes back, in which order, and what is raised."""

import os
import signal
import sys
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import pytest

from utils.site.parallel import in_forks


def test_results_come_in_the_order_of_the_tasks():
    assert in_forks([partial(pow, 2, n) for n in range(20)]) == [2**n for n in range(20)]
    assert in_forks([]) == []


@pytest.mark.skipif(sys.platform != "linux" or (os.cpu_count() or 1) < 2, reason="needs Linux and two cores")
def test_they_run_in_other_processes_which_see_what_this_one_holds():
    held = {"mine": lambda: 7}  # a function that cannot be pickled
    found = in_forks([lambda: (os.getpid(), held["mine"]())] * 4)
    assert {value for _, value in found} == {7} and os.getpid() not in {process for process, _ in found}


def test_the_error_of_a_task_is_raised_here():
    with pytest.raises(ValueError, match="too large"):
        in_forks([partial(abs, -1), partial(_refuse, "too large")])


def test_a_process_that_ends_in_its_task_is_not_waited_for():
    with pytest.raises(BrokenProcessPool):
        in_forks([partial(abs, -1), partial(os._exit, 3)])


def test_no_process_is_ended_by_a_signal(tmp_path):
    """One that handles SIGTERM, as a process that saves its work does, would not end, and be waited for for ever."""
    got = tmp_path / "got"
    got.touch()

    def heeded(*_):
        got.write_text("SIGTERM")
        os._exit(1)

    before = signal.signal(signal.SIGTERM, heeded)
    try:
        for _ in range(20):
            in_forks([partial(abs, -1), partial(abs, -2)])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert got.read_text() == ""


def _refuse(words: str):
    raise ValueError(words)
