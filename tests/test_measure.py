"""utils/measure.py: the byte counter against sizes known by hand."""

import pytest
import torch
from torch import nn

from utils.measure import LiveBytes


def test_a_tensor_counts_while_it_lives():
    with LiveBytes() as memory:
        a = torch.zeros(1000)
        assert memory.live == 4000
        b = torch.zeros(10, dtype=torch.float64)
        assert memory.live == 4080
        del a
        assert memory.live == 80
    assert memory.peak == 4080
    del b
    assert memory.live == 0, "storages that die after the block still leave the book"


def test_views_share_one_count_and_keep_the_whole_storage_alive():
    with LiveBytes() as memory:
        a = torch.zeros(1000)
        row = a.view(10, 100)[3]
        assert memory.live == 4000
        del a
        assert memory.live == 4000, "ten rows live as long as one of them"
        del row
        assert memory.live == 0
        gappy = torch.empty_strided((2, 1), (100, 1))
        assert memory.live == 101 * 4, "bytes of the storage, not of the elements"
        del gappy


def test_what_was_there_before_does_not_count_not_even_through_a_view():
    old = torch.zeros(100, 100)
    with LiveBytes() as memory:
        view = old.t()
        assert memory.live == 0
        new = view + 1
        old.add_(1)
        assert memory.live == 40_000
        del new


def test_tensors_made_from_python_numbers_count():
    with LiveBytes() as memory:
        a = torch.tensor([1.0, 2.0, 3.0])
        assert memory.live == 12
        del a
    assert memory.live == 0


def test_the_trace_and_reset_peak():
    with LiveBytes() as memory:
        a = torch.zeros(1000)
        kept = torch.zeros(5)
        del a
        memory.reset_peak()
        assert memory.peak == 20, "a fresh peak starts at what is alive"
        b = torch.zeros(10)
    assert memory.trace == [4000, 4020, 60]
    assert memory.peak == 60
    del b, kept


@pytest.mark.parametrize("layers", [1, 2, 4, 8])
def test_the_graph_keeps_one_activation_a_layer(layers):
    """Each ReLU's output is what it and the next Linear save; the loss adds its own 4 bytes."""
    model = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(layers)])
    x = torch.randn(32, 64)
    with LiveBytes() as memory:
        loss = model(x).sum()
        assert memory.live == layers * 32 * 64 * 4 + 4
        loss.backward()
        parameters = sum(p.numel() for p in model.parameters())
        assert memory.live == parameters * 4 + 4, "activations gone, one gradient per parameter"


def test_meta_tensors_count_as_if_they_were_real():
    with LiveBytes() as memory:
        x = torch.zeros(1024, 1024, device="meta")
        y = x @ x
        assert memory.live == 2 * 1024 * 1024 * 4
        del y
