"""Lives of storages: when they were born, when they died, and what they were for."""

import pytest
import torch
from torch import nn

from utils.measure import LiveBytes
from utils.measure.lifetimes import KINDS, Lifetimes, bytes_by_kind


def test_a_life_begins_with_its_operation_and_ends_with_its_last_view():
    with Lifetimes() as memory:
        x = torch.zeros(10)
        row = x[2:4]
        y = x + 1
        del x
        assert memory.lives[0].died == float("inf")
        del row
        z = torch.ones(5)
    assert [(life.nbytes, life.born, life.died) for life in memory.lives] == [
        (40, 0, 2), (40, 1, float("inf")), (20, 2, float("inf")),
    ]  # fmt: skip
    assert memory.operations == ["aten.zeros", "aten.add", "aten.ones"] and memory.now == 3
    assert y.shape == (10,) and z.shape == (5,)


def test_what_is_older_than_the_block_has_no_life():
    x = torch.zeros(10)
    with Lifetimes() as memory:
        x.add_(1)
        x.view(2, 5)
    assert not memory.lives


def two_steps(memory) -> list[dict[str, int]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 64))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x, y, steps = torch.zeros(32, 8), torch.zeros(32, dtype=torch.long), []
    for _ in range(2):
        steps.append({"forward": getattr(memory, "now", 0)})
        loss = nn.functional.cross_entropy(model(x), y)
        steps[-1]["backward"] = getattr(memory, "now", 0)
        loss.backward()
        steps[-1]["update"] = getattr(memory, "now", 0)
        optimizer.step()
        optimizer.zero_grad()
        steps[-1]["end"] = getattr(memory, "now", 0)
    return steps


def test_the_kinds_add_up_to_the_bytes_that_are_alive():
    with LiveBytes() as counted:
        two_steps(counted)
    with Lifetimes() as memory:
        steps = two_steps(memory)
    kinds = bytes_by_kind(memory, steps, large=32 * 64 * 4)
    highest = max(max(sum(alive) for alive in zip(*step.values(), strict=True)) for step in kinds)
    assert highest == counted.peak
    assert all(
        len(alive) == step["end"] - step["forward"]
        for step, of in zip(steps, kinds, strict=True)
        for alive in of.values()
    )


def test_each_storage_has_the_kind_that_it_is_for():
    parameters = 8 * 16 + 16 + 16 * 64 + 64
    with Lifetimes() as memory:
        steps = two_steps(memory)
    first, second = bytes_by_kind(memory, steps, large=32 * 64 * 4)
    assert list(first) == list(KINDS)
    assert set(first["weights"]) == set(second["weights"]) == {4 * parameters + 32 * 8 * 4 + 32 * 8}
    state = 8 * parameters + 4 * 4  # and the counts of four tensors
    assert first["the optimizer's state"][0] == 0 and first["the optimizer's state"][-1] == state
    assert second["the optimizer's state"][-1] == state
    assert max(second["the loss"]) == 3 * 32 * 64 * 4
    assert max(second["gradients"]) == 4 * parameters
    assert max(second["kept by the layers"]) == 32 * 16 * 4 + 2 * 4  # what ReLU hands on; the loss, and its weights


def test_phases_out_of_order_are_refused():
    with pytest.raises(ValueError, match="give them in order"):
        bytes_by_kind(Lifetimes(), [{"forward": 3, "backward": 2, "update": 4, "end": 5}], large=1)
