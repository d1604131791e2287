"""Seconds of several functions, measured in turn under the same conditions."""

import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import torch

from utils.device import pick_device, synchronize


class Timing(NamedTuple):
    """Seconds of one call: the median, the least and the most over the rounds, and all rounds in order."""

    median: float
    low: float
    high: float
    rounds: tuple[float, ...]


def time_paired(
    functions: dict[str, Callable[[], object]],
    rounds: int = 9,
    warmup: int = 2,
    device: torch.device | str | None = None,
) -> dict[str, Timing]:
    """Seconds of each function under the same conditions: {name: Timing}.

    Each function runs `warmup` times unmeasured (lazy initialisation, caches, autotuning), then once per round. Each
    round starts with another function, so that a slow minute of the machine or a warm cache affects all equally. The
    device's queue is empty before and after each call. device: where they compute (default: the GPU if there is one;
    ValueError if this machine lacks it). The caller sets the number of CPU threads (torch.get_num_threads()).
    """
    if not functions:
        raise ValueError("nothing to time: pass {name: function, ...}")
    if rounds < 1 or warmup < 0:
        raise ValueError(f"{rounds} rounds after {warmup} warm-up calls: at least 1 and 0")
    device = pick_device("auto") if device is None else torch.device(device)
    for function in functions.values():
        for _ in range(warmup):
            function()
    names = list(functions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for i in range(rounds):
        first = i % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(_seconds(functions[name], device))
    return {name: Timing(median(times), min(times), max(times), tuple(times)) for name, times in seconds.items()}


def _seconds(function: Callable[[], object], device: torch.device) -> float:
    synchronize(device)
    start = time.perf_counter()
    function()
    synchronize(device)
    return time.perf_counter() - start


def ratio(a: Timing, b: Timing) -> float:
    """How many times as long `a` takes as `b`: the median of the ratios round by round, so that drift cancels."""
    if len(a.rounds) != len(b.rounds):
        raise ValueError(
            f"{len(a.rounds)} and {len(b.rounds)} rounds cannot be paired: time both functions in one time_paired call"
        )
    return median(x / y for x, y in zip(a.rounds, b.rounds, strict=True))
