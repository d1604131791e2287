"""One training step under torch.profiler: its time divided into data, forward, backward, optimizer and idle."""

import json
import math
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from utils.device import pick_device, synchronize

PHASES = ("data", "forward", "backward", "optimizer")
IDLE = "idle"
STEP, PHASE = "step", "phase "  # their names in the trace
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
OPERATORS = {"cpu": ("cpu_op",), "cuda": ON_GPU, "xpu": ON_GPU}  # kinds of events that compute, by device
ACTIVITIES = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}  # recorded in addition to the host's


class StepProfile(NamedTuple):
    """Where the time of a step went.

    nanoseconds  {"data": …, "forward": …, "backward": …, "optimizer": …, "idle": …}, whole numbers; idle is the
                 time outside all phases: Python between them
    total        nanoseconds of the step; the sum of the above
    computing    nanoseconds in which the device ran an operator (CPU), or a kernel or a copy (GPU); the rest, also inside
                 the phases, is waiting and Python
    operators    (name, phase) of every operator that ran on the host, in order, nested ones included ("aten::linear",
                 "aten::addmm", …); the phase is the one in which it started, or "idle"
    """

    nanoseconds: dict[str, int]
    total: int
    computing: int
    operators: list[tuple[str, str]]

    @property
    def shares(self) -> dict[str, float]:
        """The five times as fractions of the total."""
        return {name: spent / self.total for name, spent in self.nanoseconds.items()}


@contextmanager
def phase(name: str, device: torch.device | str | None = None):
    """Mark the block as this phase of the step, in profile_step and in the trace.

    The phase ends when everything queued on `device` (default: the GPU if there is one) has run, so that its kernels
    are inside it. Use it under the profiler only: the waiting costs time. ValueError for a name that is not in PHASES,
    and for a device that this machine lacks.
    """
    if name not in PHASES:
        raise ValueError(f"{name!r} is not a phase of a step: choose one of {', '.join(PHASES)}")
    device = pick_device() if device is None else torch.device(device)
    with record_function(PHASE + name):
        yield
        synchronize(device)


def profile_step(
    step: Callable[[], object],
    warmup: int = 2,
    trace: str | Path | None = None,
    device: torch.device | str | None = None,
) -> StepProfile:
    """Call step() `warmup` times, then once more under the profiler, and return where the time of that call went.

    step marks its phases by `with phase("forward"): …`; a phase may occur again, as in accumulation. These are real
    steps: the weights move. trace: a file for the trace, as JSON that ui.perfetto.dev and chrome://tracing open.
    Profiling slows a step down, the more so the shorter its operators: trust the shares and the order more than the
    seconds. The time of other processes, such as the workers of a loader, is not included.

    Raises ValueError for a negative warm-up, for a trace in a folder that does not exist, for a device that
    this machine lacks, and as divide() does.
    """
    if warmup < 0:
        raise ValueError(f"{warmup} warm-up steps: at least 0")
    if trace is not None and not Path(trace).parent.is_dir():
        raise ValueError(f"there is no folder {Path(trace).parent} for the trace: make it first")
    device = pick_device() if device is None else torch.device(device)
    _require_recorded(device.type)
    for _ in range(warmup):
        step()
    activities = {ProfilerActivity.CPU, ACTIVITIES.get(device.type, ProfilerActivity.CPU)}
    synchronize(device)
    with profile(activities=activities, acc_events=True) as profiler, record_function(STEP):
        step()
        synchronize(device)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json") if trace is None else Path(trace)
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    return divide(events, device.type)


def divide(events: list[dict], device_type: str = "cpu") -> StepProfile:
    """The profile of the one step in a trace's events (Chrome's format: "ts" and "dur" in microseconds).

    Raises ValueError for a trace without such a step or with several, for one without phases, for phases that overlap
    (their time would count twice), and for a device whose operators the profiler does not record.
    """
    _require_recorded(device_type)
    spans = [event for event in events if event.get("ph") == "X"]
    steps = [_span(e) for e in spans if e["name"] == STEP and e["cat"] == "user_annotation"]
    if len(steps) != 1:
        raise ValueError(f"{len(steps)} steps in the trace: profile exactly one")
    (start, end) = steps[0]
    named = {PHASE + name: name for name in PHASES}
    phases = sorted(
        (*_span(e), named[e["name"]]) for e in spans if e["name"] in named and e["cat"] == "user_annotation"
    )
    if not phases:
        raise ValueError(f'the step marks no phase: wrap its parts in `with phase("{PHASES[1]}"):`, and so on')
    for (_, ends, one), (starts, _, other) in pairwise(phases):
        if starts < ends:
            raise ValueError(
                f"phase {other!r} begins inside phase {one!r}, so its time would count twice: end one first"
            )
    nanoseconds = {name: sum(b - a for a, b, phase_name in phases if phase_name == name) for name in PHASES}
    nanoseconds[IDLE] = end - start - sum(nanoseconds.values())
    return StepProfile(nanoseconds, end - start, _computing(spans, device_type), _operators(spans, phases))


def _require_recorded(device_type: str) -> None:
    if device_type not in OPERATORS:
        raise ValueError(
            f"torch's profiler records no operators on device {device_type!r}, so its computing time is unknown: "
            f"profile the step on one of {', '.join(OPERATORS)}"
        )


def _span(event: dict) -> tuple[int, int]:
    """Begin and end in whole nanoseconds, so that sums of differences are exact."""
    return round(event["ts"] * 1000), round((event["ts"] + event["dur"]) * 1000)


def _computing(spans: list[dict], device_type: str) -> int:
    """Nanoseconds covered by at least one operator; overlapping and nested operators count once."""
    covered, reached = 0, -math.inf
    for start, end in sorted(_span(e) for e in spans if e.get("cat") in OPERATORS[device_type]):
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return covered


def _operators(spans: list[dict], phases: list[tuple[int, int, str]]) -> list[tuple[str, str]]:
    def phase_of(moment: int) -> str:
        return next((name for start, end, name in phases if start <= moment < end), IDLE)

    calls = sorted(((*_span(e), e["name"]) for e in spans if e.get("cat") == "cpu_op"), key=lambda e: (e[0], -e[1]))
    return [(name, phase_of(start)) for start, _, name in calls]
