"""The order of batches is a pure function of seed, epoch and step, and the loader hands out nothing else."""

import random
from itertools import chain

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

import utils.data.order
from utils.data import TensorData
from utils.data.order import Order, batches, derive_seed


def all_indices(order: Order, epoch: int) -> list[int]:
    first = epoch * order.steps_per_epoch
    return [i for step in range(first, first + order.steps_per_epoch) for i in order.indices(step).tolist()]


@pytest.mark.parametrize("batch_size", [1, 7, 16, 50, 64])
def test_every_epoch_visits_every_example_once_in_an_order_of_its_own(batch_size):
    order = Order(50, batch_size, seed=1)
    epochs = [all_indices(order, epoch) for epoch in range(3)]
    assert all(sorted(epoch) == list(range(50)) for epoch in epochs)
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_drop_last_leaves_out_exactly_the_short_batch():
    order = Order(50, 16, drop_last=True)
    assert order.steps_per_epoch == 3
    assert len(set(all_indices(order, 0))) == 48
    assert Order(48, 16, drop_last=True).steps_per_epoch == Order(48, 16).steps_per_epoch == 3


def test_unshuffled_is_in_order():
    assert all_indices(Order(50, 16, shuffle=False), 1) == list(range(50))


@pytest.mark.parametrize("world", [1, 2, 3, 4])
def test_ranks_share_each_batch_without_overlap(world):
    whole = Order(50, 16, seed=2)
    shards = [Order(50, 16, seed=2, rank=rank, world=world) for rank in range(world)]
    for step in range(2 * whole.steps_per_epoch):
        parts = [shard.indices(step).tolist() for shard in shards]
        assert sorted(chain(*parts)) == sorted(whole.indices(step).tolist())


@pytest.mark.parametrize("examples", [1, 2, 3, 16, 17, 1000])
def test_an_order_that_is_computed_is_a_permutation_too(monkeypatch, examples):
    monkeypatch.setattr(utils.data.order, "LISTED", 0)
    epochs = [all_indices(Order(examples, 7, seed=seed), epoch) for seed in (0, 1) for epoch in (0, 1)]
    assert all(sorted(epoch) == list(range(examples)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4 or examples <= 3


def test_an_order_that_is_computed_is_well_mixed(monkeypatch):
    """As in a random one: hardly an example stays, neighbours do not stay together, and each place gets any example."""
    monkeypatch.setattr(utils.data.order, "LISTED", 0)
    images = torch.tensor(all_indices(Order(10_000, 100, seed=4), 0)).double()
    places = torch.arange(10_000.0, dtype=torch.float64)
    assert (images == places).sum() < 10 and (images.diff().abs() == 1).sum() < 10
    correlations = torch.corrcoef(torch.stack([places[1:], images[1:], images[:-1]]))
    assert correlations.triu(1).abs().max() < 5 / 10_000**0.5


def test_the_order_of_more_examples_than_memory_holds():
    order = Order(2**62, 4, seed=1)
    assert len(set(order.batch(0).tolist() + order.batch(2**60 - 1).tolist())) == 8
    assert all(0 <= index < 2**62 for index in order.batch(10**9).tolist())
    assert Order(5_000_000_000, 4).indices(0).tolist() == [1821949277, 2032830207, 1835130932, 1373482833]  # pinned


def test_the_smallest_micro_batch():
    """50 examples by 16: batches of 16, 16, 16, 2."""
    order = Order(50, 16)
    assert [order.smallest_micro_batch(3, parts) for parts in (1, 3, 16)] == [16, 5, 1]
    assert [order.smallest_micro_batch(4, parts) for parts in (1, 2, 3)] == [2, 1, 1]
    assert Order(50, 16, drop_last=True).smallest_micro_batch(9, 3) == 5
    assert Order(50, 64).smallest_micro_batch(1, 5) == 10
    assert Order(50, 16, world=2).smallest_micro_batch(4, 1) == 1


def test_the_share_of_the_rank_that_has_the_fewest():
    """50 examples by 16 on three ranks: 6, 5, 5; and of the last two examples one, one and none."""
    orders = [Order(50, 16, rank=rank, world=3, pad=True) for rank in range(3)]
    assert {order.size(5) for order in orders} == {16} and {order.size(7) for order in orders} == {2}
    assert {order.smallest_share(5) for order in orders} == {5} and {order.smallest_share(7) for order in orders} == {1}
    assert [[len(order.indices(step)) for order in orders] for step in (5, 7)] == [[6, 5, 5], [1, 1, 1]]
    assert [order.is_padding(7) for order in orders] == [False, False, True]


def test_as_many_batches_ahead_as_nobody_counts_to():
    data = TensorData(torch.randn(20, 2), torch.zeros(20, dtype=torch.int64))
    assert len(list(batches(data, Order(20, 8), 0, 3, workers=1, prefetch=10**9))) == 3


def test_the_order_is_the_same_on_every_machine():
    """Pinned: a run that is resumed on another machine or torch relies on our seeds and on torch's randperm."""
    assert Order(10, 10, seed=0).indices(0).tolist() == [2, 0, 1, 4, 5, 8, 7, 6, 9, 3]


def test_epochs_and_seeds_do_not_trade_places():
    assert derive_seed(5, "order", 3) != derive_seed(3, "order", 5)
    assert all_indices(Order(20, 20, seed=5), 3) != all_indices(Order(20, 20, seed=3), 5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 4), "empty"),
        ((10, 0), "batch_size is 0"),
        ((10, 16, 0, True, True), "batch_size 16 is larger than the data (10 examples)"),
        ((10, 4, 0, True, False, 2, 2), "rank 2 is not one of 2 ranks"),
    ],
)
def test_it_refuses(arguments, message):
    with pytest.raises(ValueError) as error:
        Order(*arguments)
    assert message in str(error.value)


class Raises(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        return torch.zeros(1), [torch.zeros(())][i]  # there is no example 1


class Drawing(Dataset):
    """Examples that draw from all three global streams on every visit."""

    def __len__(self):
        return 10

    def __getitem__(self, i):
        return torch.tensor([i, torch.rand(()), np.random.rand(), random.random()]), 0  # noqa: NPY002


def fetched(start: int, stop: int, **options) -> list[torch.Tensor]:
    return [x for x, _ in batches(Drawing(), Order(10, 4, seed=7), start, stop, **options)]


def equal(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return len(a) == len(b) and all(map(torch.equal, a, b))


@pytest.mark.parametrize(
    "options",
    [{"workers": 1}, {"workers": 2}, {"workers": 2, "persistent": False}, {"workers": 4, "prefetch": 4}],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")
def test_workers_change_nothing(options):
    assert equal(fetched(0, 7, **options), fetched(0, 7))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("start", [1, 2, 3, 5])
def test_any_start_gives_the_rest(start, workers):
    assert equal(fetched(start, 7, workers=workers), fetched(0, 7)[start:])


def test_what_an_example_draws_differs_between_examples_and_epochs():
    draws = torch.cat(fetched(0, 6))  # two epochs of ten
    assert draws[:, 1:].unique().numel() == 20 * 3


@pytest.mark.parametrize("workers", [0, 2])
def test_fetching_moves_no_global_stream(workers):
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    fetched(0, 3, workers=workers)
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == random.getstate()
    assert np.array_equal(before[2], np.random.get_state()[1])  # noqa: NPY002


def test_pure_data_is_fetched_a_batch_at_a_time():
    data = TensorData(torch.arange(10.0).unsqueeze(1), torch.arange(10))
    calls = []
    data.__class__ = type("Counting", (TensorData,), {"__getitem__": lambda self, i: calls.append(i)})
    order = Order(10, 4, seed=7)
    for step, (x, y) in enumerate(batches(data, order, 0, 3)):
        assert torch.equal(y, order.indices(step)) and torch.equal(x[:, 0], y.float())
    assert calls == []


def test_pinned_batches_are_those_of_the_loader_also_without_workers(monkeypatch):
    """A CPU cannot pin: what stands in for it notes what it is given."""
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pinned.append(tensor) or tensor.clone())
    data = TensorData(torch.arange(20.0)[:, None], torch.arange(20))
    loaded = [tuple(batch) for batch in batches(data, Order(20, 8), 0, 3, pin=True)]
    handed_in = list(zip(pinned[::2], pinned[1::2], strict=True))
    assert len(loaded) == len(handed_in) == 3
    for (x, y), (own_x, own_y) in zip(loaded, handed_in, strict=True):
        assert torch.equal(x, own_x) and torch.equal(y, own_y)
        assert x is not own_x and y is not own_y
    list(batches(data, Order(20, 8), 0, 3))
    assert len(pinned) == 6
