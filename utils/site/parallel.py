"""Tasks in processes forked from this one, one for each core: what this process holds need not be copied to them."""

import multiprocessing
import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor

_TASKS: list[Callable] = []  # of this process, where it is a fork


def in_forks(tasks: list[Callable]) -> list:
    """What each task returns, in order; the tasks run at the same time where a process can be forked safely, on Linux.

    What a task changes in memory is lost; what it writes into files is kept. Raises what the first failing task raised,
    and BrokenProcessPool where a process ended in the middle of its task.
    """
    cores = min(os.cpu_count() or 1, len(tasks))
    if sys.platform != "linux" or cores < 2:
        return [task() for task in tasks]
    # Not multiprocessing's Pool: it ends its processes by SIGTERM, and waits for ever where the caller handles that.
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(cores, mp_context=context, initializer=_hold, initargs=(tasks,)) as pool:
        return list(pool.map(_run, range(len(tasks))))


def _hold(tasks: list[Callable]) -> None:
    _TASKS.extend(tasks)


def _run(number: int):
    return _TASKS[number]()
