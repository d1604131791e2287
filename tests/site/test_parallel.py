"""Tasks in forks: what comes back, in which order, and what is raised."""

import os
import sys
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


def _refuse(words: str):
    raise ValueError(words)
