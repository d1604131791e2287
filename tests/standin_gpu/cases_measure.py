"""The instruments on a device that is not the CPU: they read it, or they name it and refuse."""

import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from utils.measure import (
    AllocatorBytes,
    LiveBytes,
    ScratchBytes,
    count_flops,
    profiler,
    round_to_blocks,
    saved_bytes,
    time_paired,
)
from utils.measure.dry_run import PLAN, ledger_gpt
from utils.measure.memory_model import check_allocator, predict_gpt
from utils.measure.profiler import PHASES, phase, profile_step

SIZES = (1, 33 * 33, 100_000)


def test_the_allocator_asks_for_the_bytes_of_the_ledger():
    with AllocatorBytes() as memory, LiveBytes() as ledger:
        tensors = [torch.zeros(n, device="gpu") for n in SIZES]
        torch.zeros(1000, device="gpu")
    assert memory.requested_end == ledger.live == sum(tensor.nbytes for tensor in tensors)
    assert memory.requested_peak == ledger.peak == ledger.live + 4000
    assert memory.end == sum(round_to_blocks(tensor.nbytes) for tensor in tensors)


def test_what_an_operator_returns_counts_as_long_as_it_lives():
    x = torch.ones(100, 100, device="gpu")
    with AllocatorBytes("gpu") as memory, LiveBytes() as ledger:
        y = x @ x
        view = y.t()[3:]
        del y
        out = torch.empty(0, device="gpu")
        torch.add(x, 1, out=out)
        x.add_(1).relu_()
    assert memory.requested_end == ledger.live == view.untyped_storage().nbytes() + out.nbytes == 80_000
    with AllocatorBytes("gpu") as memory:
        del view, out
    assert memory.requested_end == -80_000


def test_scratch_is_none_where_the_operators_are_the_cpus():
    x = torch.ones(10, 10, device="gpu")
    with ScratchBytes() as operations:
        x @ x
    assert operations.bytes == {"aten.mm": 0}


def test_a_prediction_to_the_byte_holds_on_the_device():
    sizes = (65, 64, 64, 4, 4, 8, 64)
    check = check_allocator(predict_gpt(*sizes, PLAN), lambda: ledger_gpt(*sizes, PLAN, "gpu"))
    assert check.agrees and check.requested > 0, check


def test_devices_that_are_not_here_or_cannot_be_read_are_named(monkeypatch):
    for instrument in (AllocatorBytes, ScratchBytes):
        with pytest.raises(ValueError, match="'cuda' is not available here, it has gpu"):
            instrument("cuda")
        with pytest.raises(ValueError, match="'cpu' has no allocator that keeps statistics: use LiveBytes"):
            instrument("cpu")
    monkeypatch.delattr(torch.gpu, "memory_stats")
    with pytest.raises(ValueError, match=r"torch\.gpu has no statistics of its allocator"):
        AllocatorBytes()


def test_seconds_and_counts_are_the_devices():
    model, x = nn.Linear(8, 4).to("gpu"), torch.ones(2, 8, device="gpu")
    assert time_paired({"forward": lambda: model(x)}, rounds=3)["forward"].low > 0
    assert count_flops(lambda: model(x).sum().backward()) == 2 * 2 * (2 * 8 * 4)
    saved = saved_bytes(lambda: model(x), parameters=model.parameters())
    assert saved.activations == x.nbytes
    with pytest.raises(ValueError, match="'mps' is not available here, it has gpu"):
        time_paired({"forward": time.time}, device="mps")


def make_step():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)).to("gpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step():
        with phase("data"):
            x, y = torch.ones(4, 8, device="gpu"), torch.zeros(4, dtype=torch.long, device="gpu")
        with phase("forward"):
            loss = F.cross_entropy(model(x), y)
        with phase("backward"):
            loss.backward()
        with phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()

    return step


def test_a_step_is_profiled_where_it_is_known_what_computes(monkeypatch):
    with pytest.raises(ValueError, match=r"records no operators on device 'gpu'.* one of cpu, cuda"):
        profile_step(make_step())
    monkeypatch.setitem(profiler.OPERATORS, "gpu", profiler.OPERATORS["cpu"])  # its operators run on the host
    result = profile_step(make_step())
    assert all(result.nanoseconds[name] > 0 for name in PHASES)
    assert 0 < result.computing < result.total
    products = [where for name, where in result.operators if name in ("aten::addmm", "aten::mm")]
    assert products.count("forward") == 2 and products.count("backward") == 3
