"""The profiler's shares of a step: they add up, they find what was planted, they refuse what they cannot divide."""

import json
import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from utils.measure.profiler import IDLE, PHASES, StepProfile, divide, phase, profile_step


def make_step(data_seconds: float = 0.0, between_seconds: float = 0.0):
    """One step of a small classifier, with a pause in its data or between its phases."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        with phase("data", "cpu"):
            time.sleep(data_seconds)
            x, y = torch.ones(4, 8), torch.zeros(4, dtype=torch.long)
        time.sleep(between_seconds)
        with phase("forward", "cpu"):
            loss = F.cross_entropy(model(x), y)
        with phase("backward", "cpu"):
            loss.backward()
        with phase("optimizer", "cpu"):
            optimizer.step()
            optimizer.zero_grad()

    return step


def event(name, ts, dur, cat="user_annotation"):
    return {"ph": "X", "name": name, "cat": cat, "ts": ts, "dur": dur}


def test_the_shares_add_up_exactly():
    result = profile_step(make_step(), device="cpu")
    assert list(result.nanoseconds) == [*PHASES, IDLE]
    assert sum(result.nanoseconds.values()) == result.total > 0
    assert all(spent > 0 for spent in result.nanoseconds.values())
    assert 0 < result.computing < result.total
    assert sum(result.shares.values()) == pytest.approx(1, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("where", "found"), [("data_seconds", "data"), ("between_seconds", "idle")])
def test_a_planted_pause_shows_where_it_is(where, found):
    """A sleep never ends early; that no other part is longer is not asserted, for on a busy machine one may be."""
    result = profile_step(make_step(**{where: 0.2}), device="cpu")
    assert result.nanoseconds[found] >= 0.2e9
    assert sum(result.nanoseconds.values()) == result.total


def test_operators_stand_in_their_phase():
    operators = profile_step(make_step(), device="cpu").operators
    assert operators.count(("aten::addmm", "forward")) == 2
    assert operators.count(("aten::mm", "backward")) == 3  # the first layer's input needs no gradient
    assert ("aten::ones", "data") in operators
    assert {its for _, its in operators} <= {*PHASES, IDLE}


def test_the_trace_is_left_where_asked_and_gives_the_same_profile(tmp_path):
    path = tmp_path / "trace.json"
    result = profile_step(make_step(), trace=path, device="cpu")
    assert divide(json.loads(path.read_text())["traceEvents"]) == result
    profile_step(make_step(), device="cpu")
    assert list(tmp_path.iterdir()) == [path]  # and nothing where nothing was asked for


def test_the_trace_has_what_viewers_need(tmp_path):
    """Chrome's format: events have a phase, a process and a thread; complete ones have a duration, and ours are complete."""
    path = tmp_path / "trace.json"
    profile_step(make_step(), trace=path, device="cpu")
    events = json.loads(path.read_text())["traceEvents"]
    assert all(isinstance(each["ph"], str) and {"name", "pid", "tid", "ts"} <= each.keys() for each in events)
    complete = [each for each in events if each["ph"] == "X"]
    assert all(isinstance(each["ts"], float) and each["dur"] >= 0 for each in complete)
    marks = [each["name"] for each in complete if each["cat"] == "user_annotation" and "#" not in each["name"]]
    assert sorted(marks) == sorted(["step", *(f"phase {name}" for name in PHASES)])


def test_warm_up_steps_are_real_and_not_in_the_trace(tmp_path):
    calls = []

    def step():
        calls.append(None)
        with phase("forward", "cpu"):
            torch.ones(1).exp()

    result = profile_step(step, warmup=3, device="cpu")
    assert len(calls) == 4 and result.operators.count(("aten::exp", "forward")) == 1


def test_by_hand():
    events = [
        event("step", 100, 50),
        event("phase data", 101, 10),
        event("phase forward", 112, 5),
        event("phase backward", 117, 5),
        event("phase forward", 125, 5.5),
        event("aten::b", 112, 2, "cpu_op"),  # inside a, and begun in the same instant
        event("aten::a", 112, 4, "cpu_op"),
        event("aten::c", 148, 1, "cpu_op"),
        {"ph": "i", "name": "a mark", "ts": 1},
    ]
    assert divide(events) == StepProfile(
        {"data": 10_000, "forward": 10_500, "backward": 5_000, "optimizer": 0, "idle": 24_500},
        total=50_000,
        computing=5_000,
        operators=[("aten::a", "forward"), ("aten::b", "forward"), ("aten::c", "idle")],
    )


def test_on_cuda_kernels_and_copies_compute_and_what_overlaps_counts_once():
    events = [
        event("step", 0, 100),
        event("step", 5, 90, "gpu_user_annotation"),  # the profiler draws annotations on the GPU's lane as well
        event("phase forward", 10, 80),
        event("phase forward", 11, 70, "gpu_user_annotation"),
        event("aten::mm", 10, 50, "cpu_op"),
        event("gemm", 20, 10, "kernel"),
        event("relu", 25, 10, "kernel"),
        event("copy", 50, 3, "gpu_memcpy"),
        event("fill", 60, 2, "gpu_memset"),
    ]
    result = divide(events, "cuda")
    assert (result.total, result.nanoseconds["forward"], result.computing) == (100_000, 80_000, 20_000)


def test_refuses_an_unknown_phase():
    with pytest.raises(ValueError, match=r"'loss' is .*: choose one of data, forward"), phase("loss"):
        pass


def test_refuses_a_step_without_phases():
    with pytest.raises(ValueError, match="the step marks no phase: wrap its parts"):
        profile_step(lambda: torch.ones(1).exp(), device="cpu")


def test_refuses_phases_that_overlap():
    def step():
        with phase("forward", "cpu"), phase("data", "cpu"):
            torch.ones(1)

    with pytest.raises(ValueError, match="phase 'data' begins inside phase 'forward'"):
        profile_step(step, device="cpu")


def test_refuses_no_step_and_several():
    for steps in (0, 2):
        with pytest.raises(ValueError, match=f"{steps} steps in the trace"):
            divide([event("step", 100 * i, 50) for i in range(steps)])


def test_refuses_bad_arguments_before_it_runs_a_step(tmp_path):
    def never():
        raise AssertionError("this step should not run")

    with pytest.raises(ValueError, match="-1 warm-up steps"):
        profile_step(never, warmup=-1)
    with pytest.raises(ValueError, match=r"there is no folder .*missing for the trace"):
        profile_step(never, trace=tmp_path / "missing" / "trace.json")


def test_devices_that_are_not_here_or_not_recorded_are_named():
    with pytest.raises(
        ValueError, match=r"records no operators on device 'mps'.*: profile the step on one of cpu, cuda"
    ):
        profile_step(make_step(), device="mps")
    with pytest.raises(ValueError, match="records no operators on device 'mps'"):
        divide([event("step", 0, 2), event("phase data", 0, 1)], "mps")
    if not torch.xpu.is_available():
        with pytest.raises(ValueError, match="device 'xpu' is not available here"), phase("forward", "xpu"):
            pass
        with pytest.raises(ValueError, match="device 'xpu' is not available here"):
            profile_step(make_step(), device="xpu")
