"""Graphs, operations and kernels are counted as torch's own instruments count them."""

import os
import shutil
import time

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from utils.measure import compiler
from utils.measure.compiler import (
    Recorder,
    XRay,
    generated_source,
    graphs_after,
    kernels,
    median_seconds,
    mode_seconds,
    no_inductor,
    operations,
    own_cache,
    recorded,
)

BATCHES = [(torch.ones(rows, 3),) for rows in (4, 5, 6, 1)]


def wave(x):
    return 2 * x.sin() + 1


def branching(x):
    y = x.sin()
    return y * 2 if y.sum() > 0 else y - 1


def test_recorder_writes_down_each_graph_and_runs_it():
    compiled, recorder = recorded(branching)
    assert recorder.graphs == []
    for x in (torch.ones(3), -torch.ones(3)):
        assert torch.equal(compiled(x), branching(x))
    assert recorder.graphs == [["sin", "sum", "gt"], ["mul"], ["sub"]]


@pytest.mark.slow
@pytest.mark.parametrize("function", [wave, branching])
@pytest.mark.parametrize("dynamic", [None, True, False])
def test_graphs_and_operations_are_those_of_torchs_own_counter(function, dynamic):
    counter, counts = CompileCounter(), []
    torch.compiler.reset()
    compiled = torch.compile(function, backend=counter, dynamic=dynamic)
    for call in BATCHES:
        compiled(*call)
        counts.append(counter.frame_count)
    assert graphs_after(function, BATCHES, dynamic=dynamic) == counts
    compiled, recorder = recorded(function, dynamic=dynamic)
    for call in BATCHES:
        compiled(*call)
    assert sum(map(len, recorder.graphs)) == counter.op_count


def test_every_count_starts_afresh():
    assert graphs_after(wave, BATCHES) == graphs_after(wave, BATCHES) == [1, 2, 2, 3]


def test_recorder_names_functions_methods_and_operators():
    compiled, recorder = recorded(lambda x: torch.relu(x.view(-1)) @ x[0])
    compiled(torch.ones(1, 4))
    assert recorder.graphs == [["view", "relu", "getitem", "matmul"]]
    assert Recorder().graphs == []


def test_operations_lists_what_reaches_the_device():
    x = torch.ones(2, 2)
    assert operations(wave, x) == ["sin", "mul", "add"]
    assert operations(lambda x: x, x) == []


def test_mode_seconds_times_the_first_call_apart_from_later_ones(monkeypatch):
    asked = []

    def compile_(function, **options):
        asked.append(options)
        calls = []

        def compiled(seconds):
            time.sleep(seconds if calls else 0.2)
            calls.append(seconds)

        return compiled

    monkeypatch.setattr(torch, "compile", compile_)
    first, later = mode_seconds(wave, 0.001, mode="default", least=0.01, dynamic=True)
    assert asked == [{"mode": "default", "dynamic": True}] and first > 0.19 and 0.001 <= later < first / 2


def test_without_a_compiler_the_reason_is_given(monkeypatch):
    def failing(function, *args):
        raise RuntimeError("no compiler\nsecond line")

    monkeypatch.setattr(compiler, "kernels", failing)
    assert no_inductor() == "RuntimeError: no compiler"
    monkeypatch.setattr(compiler, "kernels", lambda function, x: compiler.Kernels(x, 1, 1))
    assert no_inductor().endswith("[1.0, 1.0]")


def test_a_compiled_function_is_timed_on_the_threads_that_compiled_it():
    function, recorder = recorded(wave)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        median_seconds(function, torch.linspace(-1, 1, 64), least=0.01)
    finally:
        torch.set_num_threads(before)
    assert len(recorder.graphs) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # Inductor's own
@compiler.config.patch({"compile_threads": 2, "cpp.vec_isa_ok": None})
def test_a_chain_is_one_kernel_and_a_break_makes_two(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TORCHINDUCTOR_VEC_ISA_OK", "")
    folder = own_cache()
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == folder
    if reason := no_inductor():
        pytest.skip(reason)

    def broken(x):
        y = x.sin() * 2
        print("", end="")
        return y + 1

    x = torch.linspace(-1, 1, 4096)
    assert [kernels(function, x).count for function in (wave, broken)] == [1, 2]
    assert "sin" in generated_source(wave, x)
    found_in_cache = kernels(wave, x)
    torch.testing.assert_close(found_in_cache.output, wave(x))
    assert found_in_cache.count == 1
    assert os.listdir(folder)
    shutil.rmtree(folder)


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # Inductor's own
@compiler.config.patch({"cpp.vec_isa_ok": True})  # as own_cache has it: nothing is compiled to find out
def test_an_x_ray_keeps_what_each_stage_makes_and_runs_the_graph():
    torch.compiler.reset()
    x = torch.linspace(-1, 1, 4096).requires_grad_()
    xray = XRay(around=(seen := compiler._Operations()))
    compiled = torch.compile(lambda x: (x @ x * wave(x)).sum(), backend=xray)
    compiled(x).backward()
    by_hand = torch.autograd.grad((x @ x * wave(x)).sum(), x)[0]
    torch.testing.assert_close(x.grad, by_hand)
    assert len(xray.dynamo) == len(xray.joint) == 1 and "sin" in xray.dynamo[0]
    forward, backward = xray.halves
    assert {kind for kind, _ in forward.launches} >= {"fused"} and backward.launches
    assert "mul.Tensor" in xray.joint[0] and "sin" in seen.names and forward.nbytes >= 2 * x.nbytes
    assert "at::vec" in forward.source


@pytest.mark.filterwarnings("ignore:`torch.jit.script_method` is deprecated:DeprecationWarning")  # Inductor's own
@compiler.config.patch({"cpp.vec_isa_ok": True})  # as own_cache has it: nothing is compiled to find out
def test_an_x_ray_counts_the_bytes_of_one_kernel():
    torch.compiler.reset()
    x = torch.linspace(-1, 1, 4096)
    xray = XRay()
    torch.testing.assert_close(torch.compile(wave, backend=xray)(x), wave(x))
    (half,) = xray.halves
    assert [kind for kind, _ in half.launches] == ["fused"] and half.nbytes == 2 * x.nbytes
