"""An order of the caller's own: a pure function of the step, and what keeps a sampler that was given in another way."""

import json
import random
import re
import textwrap
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from helpers.on_ranks import on_ranks
from helpers.watched import Watcher
from torch import nn
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from utils.data import TensorData
from utils.data.order import batches
from utils.data.own_order import OwnOrder, order_of
from utils.loop import Config, evaluate, train
from utils.loop.log import MEASURED

EXAMPLES = 60
X = torch.arange(float(EXAMPLES))[:, None] / EXAMPLES
Y = (torch.arange(EXAMPLES) % 5 == 0).long()  # a rare class
DATA = TensorDataset(X, Y)
WEIGHTS = torch.where(Y == 1, 4.0, 1.0)
CONFIG = Config(steps=10, lr=0.05, device="cpu", log_every=4)


class Watched(Watcher):
    examples = EXAMPLES


def weighted(step: int) -> torch.Tensor:
    return torch.multinomial(WEIGHTS, 16, replacement=True, generator=torch.Generator().manual_seed(step))


def growing(step: int) -> list[int]:
    """A curriculum: more examples in a batch, and harder ones among them, from step to step."""
    return random.sample(range(10 + 2 * step), 2 + step)


ORDERS = {
    "weighted": weighted,
    "drawn from torch's stream": lambda step: torch.multinomial(WEIGHTS, 16, replacement=True),
    "drawn from NumPy's stream": lambda step: np.random.choice(EXAMPLES, 16),  # noqa: NPY002
    "growing": growing,
}


def trained_on(data=DATA, config=CONFIG, **options) -> list[list[int]]:
    model = Watched()
    train(model, data, None, config, **options)
    return model.batches


def joined(lists) -> list[int]:
    return [index for some in lists for index in some]


def expected(order, steps: int = CONFIG.steps) -> list[list[int]]:
    """What an order says, asked from the last step to the first."""
    own = OwnOrder(order, EXAMPLES, steps, CONFIG.seed)
    return [own.batch(step).tolist() for step in reversed(range(steps))][::-1]


# ---- what works ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("workers", [0, 2])
def test_the_batches_are_those_that_it_gives(order, workers):
    assert trained_on(config=replace(CONFIG, workers=workers), order=order) == expected(order)


def test_a_rare_class_is_drawn_as_often_as_it_weighs():
    drawn = torch.tensor(trained_on(config=replace(CONFIG, steps=60), order=weighted)).flatten()
    share = (WEIGHTS[Y == 1].sum() / WEIGHTS.sum()).item()  # a half; of the examples it is a fifth
    assert abs((drawn % 5 == 0).double().mean().item() - share) < 0.05


def test_what_it_draws_is_seeded_by_the_config_and_moves_no_stream():
    order = ORDERS["drawn from torch's stream"]
    before = torch.get_rng_state(), random.getstate()
    first, again = trained_on(order=order), trained_on(order=order)
    other = trained_on(config=replace(CONFIG, seed=1), order=order)
    torch.manual_seed(0)
    assert first == again != other and random.getstate() == before[1]

    def dropout(order) -> list:
        """The masks of a run whose batches are the same, whether its order draws or not."""
        return [record["loss"] for record in train(Watched(), DATA, None, CONFIG, order=order).history]

    def drawing(step):
        torch.rand(100), np.random.rand(100), random.random()  # noqa: NPY002
        return list(range(8))

    assert dropout(drawing) == dropout(lambda step: range(8))


def test_accumulation_is_the_whole_batch_also_where_batches_differ_in_size():
    def weights(accumulation):
        model = nn.Linear(1, 2)
        nn.init.constant_(model.weight, 0.1)
        nn.init.zeros_(model.bias)
        config = replace(CONFIG, accumulation=accumulation, optimizer="sgd", batch_size=64)
        train(model, DATA, None, config, order=growing)
        return model.weight.detach()

    torch.testing.assert_close(weights(1), weights(5))


def test_its_records_have_no_epoch():
    records = train(Watched(), DATA, None, CONFIG, order=growing).history
    assert [record["step"] for record in records] == [4, 8, 10] and {record["epoch"] for record in records} == {None}


def test_workers_are_kept_where_there_are_no_epochs():
    order = OwnOrder(weighted, EXAMPLES, 10)
    assert order.next_epoch(3) > 10**9
    given = [y for _, y in batches(DATA, order, 2, 6, workers=1, persistent=False)]
    assert all(map(torch.equal, given, [Y[weighted(step)] for step in range(2, 6)]))


class Jittered(Dataset):
    """Draws for every visit of an example."""

    def __len__(self):
        return EXAMPLES

    def __getitem__(self, i):
        return torch.tensor([X[i].item(), torch.rand(()), random.random()]), Y[i]


def draws(rank: int = 0, world: int = 1, **options) -> list[torch.Tensor]:
    order = OwnOrder(lambda step: [7, 7, 3, 7], EXAMPLES, 3, seed=5, rank=rank, world=world)
    return [x for x, _ in batches(Jittered(), order, 0, 3, **options)]


def test_an_example_that_stands_twice_in_a_batch_draws_twice():
    alone = draws()
    assert torch.cat(alone)[:, 1:].unique().numel() == 3 * 4 * 2
    assert all(map(torch.equal, alone, draws(workers=2)))
    for step, (first, second) in enumerate(zip(draws(0, 2), draws(1, 2), strict=True)):
        assert torch.equal(torch.stack([first, second], 1).flatten(0, 1), alone[step])


class Sentences(Dataset):
    """Of 2 to 6 tokens; those that share a batch must be of one length."""

    def __len__(self):
        return 50

    def __getitem__(self, i):
        return torch.arange(2 + i % 5) % 7, torch.arange(2 + i % 5) % 7


def test_batches_of_like_lengths():
    """Examples 0 and 1 fit into no batch, and are never put into one."""
    model = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 7))

    def like_lengths(step):
        return [i for i in torch.randperm(50).tolist() if i % 5 == step % 5][:6]

    assert train(model, Sentences(), None, CONFIG, order=like_lengths).steps == CONFIG.steps


def test_a_batch_sampler_pass_after_pass():
    """Any step first; its passes differ; what its own generator draws is seeded for the pass."""

    class ByLength(Sampler):
        def __init__(self):
            self.epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            shuffled = random.sample(range(12), 12)
            yield from ([i, i + 12 * self.epoch] for i in shuffled[:4])

    order = order_of(ByLength(), 3)
    given = [order(step).tolist() for step in (9, 0, 5, 8, 1)]
    random.seed(99)
    again = [order_of(ByLength(), 3)(step).tolist() for step in (9, 0, 5, 8, 1)]
    assert given == again and given[0][1] - given[0][0] == 24 and given[2][1] - given[2][0] == 12
    seeded = order_of(BatchSampler(RandomSampler(DATA, generator=torch.Generator()), 25, False), 3)
    assert [len(seeded(step)) for step in range(6)] == [25, 25, 10] * 2
    assert sorted(torch.cat([seeded(3), seeded(4), seeded(5)]).tolist()) == list(range(EXAMPLES))
    assert seeded(0).tolist() != seeded(3).tolist()


def test_a_batch_sampler_that_is_no_function_of_the_pass_is_refused():
    class Stateful:
        def __init__(self):
            self.numbers = np.random.default_rng(0)

        def __iter__(self):
            yield from self.numbers.integers(EXAMPLES, size=(4, 8)).tolist()

    with pytest.raises(ValueError, match="two passes over Stateful with the same seed differ"):
        order_of(Stateful(), 0)
    with pytest.raises(ValueError, match="list yields no batch"):
        order_of([], 0)

    class Longer:
        epoch = 0

        def set_epoch(self, epoch):
            self.epoch = epoch

        def __iter__(self):
            yield from [[0]] * (3 + self.epoch)

    with pytest.raises(ValueError, match="pass 1 over Longer has 4 batches, the first had 3"):
        order_of(Longer(), 0)(3)


# ---- resuming --------------------------------------------------------------------------------------------------------


class Killed(Exception):
    pass


def killed_in(model: nn.Module, step: int) -> nn.Module:
    def kill(model, *_):
        if len(model.batches) == step:
            raise Killed

    model.register_forward_hook(kill)
    return model


def outcome(model: nn.Module, result) -> tuple[list, list]:
    history = [{key: value for key, value in record.items() if key != MEASURED} for record in result.history]
    return [value.tolist() for value in model.state_dict().values()], history


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_is_killed_twice_ends_with_the_same_bits(tmp_path, order, workers):
    config = replace(CONFIG, steps=12, save_every=2, log_every=3)
    whole = Watched()
    expected = outcome(whole, train(whole, DATA, None, config, order=order))
    for stop in (6, 4):  # forward passes since it began: in step 6, and in step 4 + 4
        with pytest.raises(Killed):
            train(killed_in(Watched(), stop), DATA, None, replace(config, workers=workers), run=tmp_path, order=order)
    last = Watched()
    assert outcome(last, train(last, DATA, None, config, run=tmp_path, order=order)) == expected
    assert last.batches == whole.batches[6:]


def test_another_order_is_refused_and_the_same_may_go_on(tmp_path):
    train(Watched(), DATA, None, CONFIG, run=tmp_path / "own", order=weighted)
    train(Watched(), DATA, None, CONFIG, run=tmp_path / "shuffled")
    other = lambda step: weighted(step + 1)  # noqa: E731
    for folder, order in (("own", other), ("own", None), ("shuffled", weighted)):
        with pytest.raises(ValueError, match=r"holds a run of another order \(order"):
            train(Watched(), DATA, None, replace(CONFIG, steps=20), run=tmp_path / folder, order=order)
    curriculum = lambda step: weighted(step) if step < 12 else growing(step)  # noqa: E731  (what was trained on is the same)
    result = train(Watched(), DATA, None, replace(CONFIG, steps=20), run=tmp_path / "own", order=curriculum)
    assert result.steps == 20


def test_a_folder_of_an_older_version_was_shuffled(tmp_path):
    train(Watched(), DATA, None, CONFIG, run=tmp_path)
    metadata = json.loads((tmp_path / "run.json").read_text())
    del metadata["sessions"][0]["inputs"]["order"]
    (tmp_path / "run.json").write_text(json.dumps(metadata))
    with pytest.raises(ValueError, match="order: shuffled → a function"):
        train(Watched(), DATA, None, CONFIG, run=tmp_path, order=weighted)
    assert train(Watched(), DATA, None, CONFIG, run=tmp_path).steps == CONFIG.steps


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused(data=DATA, *words: str, **options) -> list[str]:
    """Refused before the first step, naming these; the lines of code that the message shows."""
    model = Watched()
    with pytest.raises(ValueError) as error:
        train(model, data, options.pop("val_data", None), options.pop("config", CONFIG), **options)
    assert not model.batches
    assert all(word in str(error.value) for word in words), error.value
    return [line for line in str(error.value).splitlines() if line.startswith("    ")]


def run_lines(lines: list[str], **names) -> dict:
    """Run the lines of a message as they stand; what they have defined."""
    short = partial(Config, steps=40, device="cpu")
    names = {"torch": torch, "Config": short, "train": train, "evaluate": evaluate, "config": CONFIG} | names
    exec(textwrap.dedent("\n".join(lines)), names)
    return names


def of_an_iterator():
    iterator = iter(DataLoader(range(EXAMPLES), batch_size=6, shuffle=True))
    return lambda step: next(iterator)


def of_a_generator():
    generator = torch.Generator().manual_seed(0)
    return lambda step: torch.randint(EXAMPLES, (8,), generator=generator)


def of_a_counter():
    calls = []
    return lambda step: calls.append(step) or [len(calls) % EXAMPLES]


@pytest.mark.parametrize("make", [of_an_iterator, of_a_generator, of_a_counter])
def test_an_order_that_keeps_a_state_is_refused_with_the_lines_that_make_it_pure(make):
    lines = refused(DATA, "order(0) gave", "a pure function of the step", order=make())
    model = Watched()
    run_lines(lines, model=model, data=DATA)
    assert len(model.batches) == CONFIG.steps and model.batches[0] != model.batches[1]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([3, EXAMPLES], "gives index 60: the data have 60 examples, 0 to 59"),
        ([3, -1], "gives index -1"),
        ([], "shape (0,)"),
        ([0.0, 1.0], "torch.float64"),
        (7, "shape ()"),
        ([[1, 2], [3, 4]], "shape (2, 2)"),
        (Y == 1, "mask.nonzero().flatten()"),
        (None, "TypeError"),
        ({1, 2}, "TypeError"),
        ("0123", "TypeError"),
        ([[1], [2, 3]], "ValueError"),
    ],
    ids=str,
)
def test_what_are_no_indices(given, told):
    refused(DATA, "order(0) give", told, order=lambda step: given if step == 0 else [0])


def test_indices_of_every_kind():
    kinds = ([5, 6], (5, 6), range(5, 7), np.array([5, 6]), np.array([6, 5])[::-1], np.array([5, 6], dtype=np.uint64))
    for given in (*kinds, torch.tensor([5, 6], dtype=torch.int32), [torch.tensor(5), torch.tensor(6)]):
        assert expected(lambda step, given=given: given, 1) == [[5, 6]]


@pytest.mark.parametrize(
    "buffer", [np.zeros(3, dtype=np.int64), torch.zeros(3, dtype=torch.int64)], ids=["NumPy", "torch"]
)
def test_a_buffer_that_it_writes_to_again(buffer):
    def order(step):
        buffer[:] = step
        return buffer

    assert trained_on(order=order) == [[step] * 3 for step in range(10)]
    own = OwnOrder(order, EXAMPLES, 10)
    assert [batch.tolist() for batch in (own.batch(4), own.batch(5))] == [[4] * 3, [5] * 3]
    assert len(set(own.digests.values())) == 3


def test_an_error_in_a_later_step_names_it():
    listed = [[0, 1]] * 5
    with pytest.raises(ValueError, match=r"order\(5\) gives no indices of a batch \(IndexError"):
        train(Watched(), DATA, None, CONFIG, order=lambda step: listed[step])
    assert trained_on(config=replace(CONFIG, steps=5), order=lambda step: listed[step]) == listed


def test_an_order_that_follows_the_model_is_noticed_at_the_first_record(tmp_path):
    """Hard examples first: what a resumed run would not find again."""
    model = Watched()

    def hardest(step):
        with torch.no_grad():
            losses = nn.functional.cross_entropy(nn.Sequential(*model)(X), Y, reduction="none")
        return (losses + losses.roll(step)).topk(8).indices

    with pytest.raises(ValueError, match=r"order\(3\) gave .* must be a pure function of the step"):
        train(model, DATA, None, replace(CONFIG, lr=0.5), order=hardest, run=tmp_path)
    assert len(model.batches) == 4


def test_settings_that_contradict_it():
    fixed, more = lambda step: range(8), lambda step: range(8 + step)
    refused(DATA, "batch_size is 32, but order gives 8 examples", config=replace(CONFIG, batch_size=32), order=fixed)
    refused(DATA, "drop_last is True, but order says", config=replace(CONFIG, drop_last=True), order=fixed)
    for config, order in (
        (CONFIG, fixed),
        (replace(CONFIG, batch_size=8), fixed),
        (replace(CONFIG, batch_size=32), more),
    ):
        assert trained_on(config=config, order=order) == [list(order(step)) for step in range(10)]


def test_what_is_no_function_is_refused_with_the_line_that_makes_one():
    for order in ([[1, 2], [3, 4]], torch.tensor([[1, 2], [3, 4]]), np.array([[1, 2], [3, 4]])):
        model = Watched()
        run_lines(refused(DATA, "pass a function", order=order), model=model, data=DATA, order=order)
        assert model.batches == [[1, 2], [3, 4]] * 5
    for order, size in (
        (WeightedRandomSampler(WEIGHTS, 60), 64),
        (WeightedRandomSampler(WEIGHTS, 30, replacement=False), 30),
        (SubsetRandomSampler(range(10)), 10),
        (BatchSampler(SequentialSampler(DATA), 7, drop_last=True), 7),
    ):
        model = Watched()
        config = replace(CONFIG, drop_last=False)
        run_lines(refused(DATA, "pass a function", order=order), model=model, data=DATA, order=order, config=config)
        assert {len(batch) for batch in model.batches} == {size} and len(model.batches) == 10


def test_a_gradient_that_is_not_finite_names_the_examples_that_it_gave():
    x = X.clone()
    x[17] = torch.inf
    with pytest.raises(FloatingPointError, match=r"examples \[4, 17, 5\].*Look at example \[17\]"):
        train(nn.Linear(1, 2), TensorDataset(x, Y), None, CONFIG, order=lambda step: [4, 17 if step == 6 else 3, 5])


def test_an_example_that_cannot_be_fetched_is_named_with_its_step():
    class Broken(Jittered):
        def __getitem__(self, i):
            if i == 17:
                raise KeyError("no such file")
            return super().__getitem__(i)

    order = lambda step: [4, 17 if step == 6 else 3]  # noqa: E731
    for workers in (0, 1):
        with pytest.raises(RuntimeError, match="could not fetch example 17 in step 7, place 1: KeyError"):
            train(nn.Linear(3, 2), Broken(), None, replace(CONFIG, workers=workers), order=order)


# ---- a DataLoader, whose lines keep what it was told -----------------------------------------------------------------


def batches_of(loader: DataLoader, *words: str) -> list[list[int]]:
    """What the lines train on that refuse this loader."""
    lines = refused(loader, "train_data is a DataLoader", *words)
    model = Watched()
    run_lines(lines, model=model, train_data=loader)
    return model.batches


def test_a_loader_that_shuffles_needs_no_order():
    given = batches_of(DataLoader(DATA, batch_size=16, shuffle=True, drop_last=True))
    assert {len(batch) for batch in given} == {16}
    assert all(len({*joined(given[first : first + 3])}) == 48 for first in range(0, 39, 3))
    kept = batches_of(DataLoader(DATA, batch_size=16, shuffle=True))
    assert [len(batch) for batch in kept[:4]] == [16, 16, 16, 12] and sorted(joined(kept[:4])) == list(range(EXAMPLES))
    shared = batches_of(DataLoader(DATA, batch_size=16, sampler=DistributedSampler(DATA, num_replicas=2, rank=1)))
    assert sorted(joined(shared[:4])) == list(range(EXAMPLES))


@pytest.mark.parametrize("drop_last", [False, True])
def test_a_loader_with_weights(drop_last):
    loader = DataLoader(DATA, batch_size=16, sampler=WeightedRandomSampler(WEIGHTS, 60), drop_last=drop_last)
    given = torch.tensor(batches_of(loader, "order=weighted")).flatten()
    assert len(given) == 40 * 16 and 0.42 < (given % 5 == 0).double().mean() < 0.58  # unweighted: 0.2
    once = DataLoader(
        DATA, batch_size=8, sampler=WeightedRandomSampler(WEIGHTS, 20, replacement=False), drop_last=drop_last
    )
    given = batches_of(once)
    per_pass = 2 if drop_last else 3
    assert [len(batch) for batch in given[:3]] == ([8, 8, 8] if drop_last else [8, 8, 4])
    assert len(set(joined(given[:per_pass]))) == sum(map(len, given[:per_pass]))


def test_a_loader_in_the_order_of_the_data():
    given = batches_of(DataLoader(DATA, batch_size=25), "without order= it shuffles")
    assert given[:4] == [list(range(25)), list(range(25, 50)), list(range(50, 60)), list(range(25))]
    given = batches_of(DataLoader(DATA, batch_size=25, drop_last=True))
    assert given[:3] == [list(range(25)), list(range(25, 50)), list(range(25))]


def test_a_loader_with_a_batch_sampler():
    batches = [[0, 1], [2, 3, 4], [59]]
    assert batches_of(DataLoader(DATA, batch_sampler=batches))[:4] == [*batches, [0, 1]]
    part = DataLoader(DATA, batch_size=5, sampler=SubsetRandomSampler(range(10)))
    given = batches_of(part)
    assert [sorted(a + b) for a, b in zip(given[::2], given[1::2], strict=True)] == [list(range(10))] * 20
    assert given[:2] != given[2:4]
    few = batches_of(DataLoader(DATA, batch_size=5, sampler=RandomSampler(DATA, num_samples=12)))
    assert [len(batch) for batch in few[:6]] == [5, 5, 2] * 2


def test_a_loader_whose_workers_begin_in_their_own_way():
    loader = DataLoader(DATA, batch_size=16, shuffle=True, worker_init_fn=print)
    batches_of(loader, "Its worker_init_fn would not be called")


def test_a_loader_of_a_part_that_is_held_out():
    """What is left out of its sampler may be what is trained on."""
    held_out = DataLoader(DATA, batch_size=8, sampler=SubsetRandomSampler(range(50, 60)))
    lines = refused(DATA, "val_data is a DataLoader", val_data=held_out)
    names = {"model": Watched(), "train_data": DATA, "val_data": held_out}
    assert sorted(run_lines(lines, **names)["indices"]) == list(range(50, 60))
    with pytest.raises(ValueError) as error:
        evaluate(Watched(), held_out)
    lines = [line for line in str(error.value).splitlines() if line.startswith("    ")]
    assert "evaluate(" in lines[-1] and sorted(run_lines(lines, model=Watched(), data=held_out)["indices"])[0] == 50
    whole = DataLoader(DATA, batch_size=8)
    lines = refused(DATA, "val_data is a DataLoader", val_data=whole)
    assert lines == ["    train(model, train_data, val_data.dataset, config)"]
    run_lines(lines, model=Watched(), train_data=DATA, val_data=whole)


# ---- several ranks ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ranks_share_each_batch(tmp_path, forked_python):
    """Batches of 7, 1, 4 on two ranks: the weights are those of one process, and each example is one rank's."""
    outcomes = on_ranks(forked_python, 2, tmp_path, "order")
    alone = on_ranks(forked_python, 1, tmp_path, "order")[0]
    assert outcomes[0]["weights"] == outcomes[1]["weights"] == pytest.approx(alone["weights"], abs=1e-12)
    for together, whole in zip(
        zip(outcomes[0]["batches"], outcomes[1]["batches"], strict=True), alone["batches"], strict=True
    ):
        if len(whole) > 1:
            assert sorted(joined(together)) == sorted(whole)
        else:
            assert together == (whole, whole)  # the second is padding, and counts nowhere


@pytest.mark.slow
def test_ranks_with_different_orders_are_refused_on_each(tmp_path, forked_python):
    for outcome in on_ranks(forked_python, 2, tmp_path, "other orders"):
        assert re.match("ValueError: the run differs between ranks: order of some steps is", outcome["error"])


def test_partial_functions_and_objects_are_functions():
    assert trained_on(order=partial(lambda first, step: [first, step], 3)) == [[3, step] for step in range(10)]


def test_pure_data_of_a_batch_at_a_time():
    assert trained_on(data=TensorData(X, Y), order=growing) == expected(growing)
