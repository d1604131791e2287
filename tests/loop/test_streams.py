"""Data that are read from their beginning on: a stream resumes where it was, or is refused with the lines that let it."""

import random
import re
import textwrap
import threading
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from helpers.advice import followed, refusal
from helpers.on_ranks import on_ranks
from helpers.watched import Watcher
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from utils.data.order import derive_seed
from utils.data.positioned import Positioned, PositionedExamples
from utils.loop import Config, checkpoint, evaluate, train
from utils.loop.log import MEASURED

EXAMPLES = 90
X = torch.arange(float(EXAMPLES))[:, None] / EXAMPLES
Y = (torch.arange(EXAMPLES) % 3 == 0).long()
CONFIG = Config(steps=8, batch_size=10, lr=0.05, device="cpu", log_every=3)
BATCHES = replace(CONFIG, batch_size=64)  # the default: the stream says how large they are


class Watched(Watcher):
    examples = EXAMPLES


class Lines(IterableDataset):
    """Examples in order; says which is next. `shift` of the count against what was handed out: a fault, unless 0."""

    def __init__(self, shift: int = 0):
        self.next, self.shift = 0, shift

    def __iter__(self):
        while self.next < EXAMPLES:
            self.next += 1
            yield X[self.next - 1], Y[self.next - 1]
        self.next = 0

    def state_dict(self):
        return {"next": self.next + self.shift}

    def load_state_dict(self, state):
        self.next = max(0, state["next"])


class Shuffled(IterableDataset):
    """Through a buffer of 16, drawn from by a generator of its own; says all of that."""

    def __init__(self):
        self.generator, self.buffer, self.next = torch.Generator().manual_seed(4), [], 0

    def __iter__(self):
        while self.next < EXAMPLES or self.buffer:
            while len(self.buffer) < 16 and self.next < EXAMPLES:
                self.buffer.append(self.next)
                self.next += 1
            index = self.buffer.pop(int(torch.randint(len(self.buffer), (), generator=self.generator)))
            yield X[index], Y[index]
        self.next = 0

    def state_dict(self):
        return {"generator": self.generator.get_state(), "buffer": self.buffer, "next": self.next}

    def load_state_dict(self, state):
        self.generator.set_state(state["generator"])
        self.buffer, self.next = state["buffer"], state["next"]


class Loader:
    """Batches of 12 that are jittered from all three global streams; begins again by itself when it is iterated."""

    def __init__(self):
        self.batch = 0

    def __iter__(self):
        while self.batch < EXAMPLES // 12:
            self.batch += 1
            part = slice(12 * (self.batch - 1), 12 * self.batch)
            jitter = torch.rand(12, 1) + np.random.rand() + random.random()  # noqa: NPY002
            yield X[part] + 1e-4 * jitter, Y[part]
        self.batch = 0

    def state_dict(self):
        return {"batch": self.batch}

    def load_state_dict(self, state):
        self.batch = state["batch"]


def shuffled_lines():
    """A shuffle through a buffer of 16 that draws from Python's global stream."""
    buffer = []
    for index in range(EXAMPLES):
        buffer.append(index)
        if len(buffer) == 16:
            index = buffer.pop(random.randrange(16))
            yield X[index], Y[index]
    yield from ((X[index], Y[index]) for index in buffer)


def pairs_of_batches():
    for first in range(0, EXAMPLES, 9):
        yield X[first : first + 9], Y[first : first + 9]


STREAMS = {
    "examples": (Lines, CONFIG),
    "a shuffled buffer": (Shuffled, CONFIG),
    "batches": (Loader, BATCHES),
    "counted examples": (lambda: PositionedExamples(shuffled_lines), CONFIG),
    "counted batches": (lambda: Positioned(pairs_of_batches), BATCHES),
    "examples, and short batches left out": (Lines, replace(CONFIG, batch_size=40, drop_last=True)),
    "accumulated": (Shuffled, replace(CONFIG, accumulation=3)),
}


def trained_on(stream, config=CONFIG, **options) -> list[list[int]]:
    model = Watched()
    train(model, stream, None, config, **options)
    return model.batches


# ---- what works ------------------------------------------------------------------------------------------------------


def test_batches_are_made_of_examples_in_order_and_a_new_pass_begins_at_the_end(capsys):
    config = replace(CONFIG, batch_size=40, steps=7)
    given = trained_on(Lines(), config)
    assert given == [list(range(40)), list(range(40, 80)), list(range(80, 90))] * 2 + [list(range(40))]
    assert capsys.readouterr().out.count("step 4: train_data has ended, and begins again") == 1
    dropping = trained_on(Lines(), replace(config, drop_last=True))
    assert dropping == [list(range(40)), list(range(40, 80))] * 3 + [list(range(40))]


def test_what_yields_batches_says_their_size():
    config = replace(BATCHES, steps=8)
    assert trained_on(Loader(), config) == [list(range(12 * k, 12 * k + 12)) for k in (*range(7), 0)]
    with pytest.raises(ValueError, match="batch_size is 10, but the first batch of train_data has 12 examples"):
        trained_on(Loader(), CONFIG)
    assert len(trained_on(Loader(), replace(CONFIG, batch_size=12))) == 8


def test_a_collate_function_makes_batches_of_a_streams_examples():
    def collate(examples):
        return torch.stack([x for x, _ in examples]), torch.stack([y for _, y in examples])

    assert trained_on(Lines(), collate=collate) == trained_on(Lines())


class InDicts(Lines):
    """Its examples are trees."""

    def __iter__(self):
        yield from (({"x": x, "none": None}, y) for x, y in super().__iter__())


class WatchedInDicts(Watched):
    def forward(self, x):
        return super().forward(x["x"])


def test_a_stream_of_trees():
    model = WatchedInDicts()
    train(model, InDicts(), None, CONFIG)
    plain = Watched()
    train(plain, Lines(), None, CONFIG)
    assert model.batches == plain.batches
    assert all(map(torch.equal, model.state_dict().values(), plain.state_dict().values()))


def test_afterwards_it_stands_where_it_stood():
    for make, config in STREAMS.values():
        stream = make()
        first, again = trained_on(stream, config), trained_on(stream, config)
        assert first == again


def test_it_moves_no_random_stream_of_the_model_or_of_the_caller():
    """The same batches with and without draws: the same dropout masks."""

    class Drawing(Lines):
        def __iter__(self):
            for pair in super().__iter__():
                torch.rand(3), np.random.rand(3), random.random()  # noqa: NPY002
                yield pair

    before = random.getstate()
    losses = [
        [record["loss"] for record in train(Watched(), make(), None, CONFIG).history] for make in (Lines, Drawing)
    ]
    assert losses[0] == losses[1] and random.getstate() == before


def test_its_records_have_no_epoch(tmp_path):
    result = train(Watched(), Lines(), TensorDataset(X, Y), CONFIG, run=tmp_path)
    assert {record["epoch"] for record in result.history if "epoch" in record} == {None}
    assert result.best["step"] == 8


# ---- resuming --------------------------------------------------------------------------------------------------------


class Killed(Exception):
    pass


def killed_in(model: nn.Module, forward: int) -> nn.Module:
    def kill(model, *_):
        if len(model.batches) == forward:
            raise Killed

    model.register_forward_hook(kill)
    return model


def outcome(model: nn.Module, result) -> tuple[list, list]:
    history = [{key: value for key, value in record.items() if key != MEASURED} for record in result.history]
    return [value.tolist() for value in model.state_dict().values()], history


@pytest.mark.parametrize(("make", "config"), STREAMS.values(), ids=STREAMS)
@pytest.mark.parametrize("stops", [(3, 3), (1, 1), (9, 1)], ids=str)
def test_a_run_that_is_killed_twice_ends_with_the_same_bits(tmp_path, make, config, stops):
    """In the middle of a pass and at its end: after 9 batches of 10 examples, say."""
    config = replace(config, steps=13, save_every=1)
    parts = config.accumulation
    whole = Watched()
    expected = outcome(whole, train(whole, make(), None, config))
    for stop in stops:
        with pytest.raises(Killed):
            train(killed_in(Watched(), parts * stop + 1), make(), None, config, run=tmp_path)
    last = Watched()
    assert outcome(last, train(last, make(), None, config, run=tmp_path)) == expected
    assert last.batches == whole.batches[parts * sum(stops) :]


def test_resumed_with_the_same_object_that_the_killed_run_has_read(tmp_path):
    stream, whole = Shuffled(), Watched()
    config = replace(CONFIG, save_every=2)
    expected = outcome(whole, train(whole, Shuffled(), None, config))
    with pytest.raises(Killed):
        train(killed_in(Watched(), 6), stream, None, config, run=tmp_path)
    last = Watched()
    assert outcome(last, train(last, stream, None, config, run=tmp_path)) == expected


class AsHuggingFaceDoes(Lines):
    """Every pass begins where it was once loaded."""

    begin = 0

    def __iter__(self):
        self.next = self.begin
        yield from super().__iter__()

    def load_state_dict(self, state):
        self.begin = state["next"]


def test_a_later_pass_begins_at_the_beginning_also_after_a_resume(tmp_path):
    config = replace(CONFIG, steps=22, save_every=1)
    whole = trained_on(Lines(), config)
    for stop in (4, 6):  # to step 8, in the first pass, whose last step is the ninth
        with pytest.raises(Killed):
            train(killed_in(Watched(), stop), AsHuggingFaceDoes(), None, config, run=tmp_path)
    assert trained_on(AsHuggingFaceDoes(), config, run=tmp_path) == whole[8:]


def test_resumed_at_the_very_end_of_a_pass_that_begins_where_it_was_loaded(tmp_path):
    config = replace(CONFIG, steps=13, save_every=1)
    with pytest.raises(Killed):
        train(killed_in(Watched(), 10), AsHuggingFaceDoes(), None, config, run=tmp_path)
    assert trained_on(AsHuggingFaceDoes(), config, run=tmp_path) == trained_on(Lines(), config)[9:]


def test_where_nothing_but_the_best_weights_was_saved_it_begins_anew(tmp_path):
    config = replace(CONFIG, val_every=3, save_every=0)
    whole = Watched()
    expected = outcome(whole, train(whole, Shuffled(), TensorDataset(X, Y), config))
    with pytest.raises(Killed):
        train(killed_in(Watched(), 6), Shuffled(), TensorDataset(X, Y), config, run=tmp_path)
    assert not checkpoint.find(tmp_path / "checkpoints") and checkpoint.find(tmp_path / "checkpoints", "best")
    last = Watched()
    assert outcome(last, train(last, Shuffled(), TensorDataset(X, Y), config, run=tmp_path)) == expected


def test_a_run_on_a_dataset_does_not_go_on_on_a_stream_nor_the_other_way(tmp_path):
    data = TensorDataset(X, Y)
    train(Watched(), Lines(), None, CONFIG, run=tmp_path / "stream")
    train(Watched(), data, None, CONFIG, run=tmp_path / "dataset")
    with pytest.raises(ValueError, match="training examples: a stream → 90"):
        train(Watched(), data, None, CONFIG, run=tmp_path / "stream")
    with pytest.raises(ValueError, match="training examples: 90 → a stream"):
        train(Watched(), Lines(), None, CONFIG, run=tmp_path / "dataset")
    for folder, other in (("stream", data), ("dataset", Lines())):
        (tmp_path / folder / "run.json").unlink()  # lost: the checkpoints tell
        with pytest.raises(ValueError, match=r"the checkpoint is of a run on a (stream|dataset), and train_data is a"):
            train(Watched(), other, None, CONFIG, run=tmp_path / folder)


def test_another_stream_is_said(tmp_path, capsys):
    train(Watched(), Lines(), None, CONFIG, run=tmp_path)
    capsys.readouterr()

    class Later(Lines):
        def __iter__(self):
            yield from ((x + 1, y) for x, y in super().__iter__())

    train(Watched(), Later(), None, replace(CONFIG, steps=12), run=tmp_path)
    assert "training data: " in capsys.readouterr().out


# ---- what is refused -------------------------------------------------------------------------------------------------


def refused(stream, *words: str, **options) -> list[str]:
    """Refused before the first step, naming these; the lines of code that the message shows."""
    model = Watched()
    with pytest.raises(ValueError) as error:
        train(model, stream, options.pop("val_data", None), options.pop("config", CONFIG), **options)
    assert not model.batches
    assert all(word in str(error.value) for word in words), error.value
    return [line for line in str(error.value).splitlines() if line.startswith("    ")]


def run_lines(lines: list[str], **names) -> dict:
    """Run the lines of a message as they stand; what they have defined."""
    short = partial(Config, steps=CONFIG.steps, device="cpu")
    names = {"torch": torch, "Config": short, "train": train, "evaluate": evaluate, "config": CONFIG} | names
    exec(textwrap.dedent("\n".join(lines)), names)
    return names


class Plain(IterableDataset):
    """Says no position."""

    def __iter__(self):
        return iter([*zip(X, Y, strict=True)])


def test_a_stream_without_a_position_is_refused_with_the_lines_that_give_it_one():
    model = Watched()
    run_lines(refused(Plain(), "train_data is a Plain without", "says its position"), model=model, train_data=Plain())
    assert model.batches == trained_on(Lines())
    model = Watched()
    lines = refused(pairs_of_batches(), "train_data is a generator without", "if pairs_of_batches() begins a new pass")
    run_lines(lines, model=model, train_data=None, pairs_of_batches=pairs_of_batches, config=BATCHES)
    assert model.batches == [list(range(9 * k, 9 * k + 9)) for k in range(8)]
    model = Watched()
    lines = refused(((x, y) for x, y in pairs_of_batches()), "if begin() begins a new pass")
    run_lines(lines, model=model, train_data=None, begin=pairs_of_batches, config=BATCHES)
    assert len(model.batches) == 8
    refused(map(tuple, []), "train_data is a map without")


@pytest.mark.parametrize("dataset", [Plain(), Lines()], ids=["no position", "a position"])
def test_a_loader_of_a_stream(dataset):
    loader = DataLoader(dataset, batch_size=40, drop_last=True, num_workers=0)
    lines = refused(loader, "does not say its position", "StatefulDataLoader")
    model = Watched()
    run_lines(lines, model=model, train_data=loader)
    assert model.batches[:4] == [list(range(40)), list(range(40, 80))] * 2
    whole = DataLoader(Batched(), batch_size=None)
    model = Watched()
    run_lines(refused(whole, "does not say its position"), model=model, train_data=whole, config=BATCHES)
    assert model.batches[0] == list(range(9))


class Batched(IterableDataset):
    def __iter__(self):
        return pairs_of_batches()


@pytest.mark.parametrize(
    ("shift", "what"), [(-1, "another one"), (1, "another one"), (-10, "the batch before it, again")], ids=str
)
def test_a_position_that_is_not_what_was_handed_out(shift, what):
    """Counted after yield: the last example comes twice, or with a buffer a whole batch."""
    model = Watched()
    call = {"model": model, "train_data": Lines(shift), "config": CONFIG}
    message = refusal(call, f"yielded not that but {what}", "count before yield", "a new Lines")
    train(**followed(message, call, "train_data", program=0, begin=Lines))
    assert model.batches == trained_on(Lines())


class Forgetful(Shuffled):
    """Its position leaves out the generator."""

    def state_dict(self):
        return {name: value for name, value in super().state_dict().items() if name != "generator"}

    def load_state_dict(self, state):
        self.buffer, self.next = state["buffer"], state["next"]


class DoesNotGoBack(Lines):
    def load_state_dict(self, state):
        pass


@pytest.mark.parametrize("make", [Forgetful, DoesNotGoBack])
def test_a_position_that_leaves_something_out(make):
    refused(make(), "yielded not that but another one")


class Positions(Lines):
    def __init__(self, position):
        super().__init__()
        self.position = position

    def state_dict(self):
        return self.position()


@pytest.mark.parametrize(
    ("position", "told"),
    [
        (lambda: {"generator": np.random.default_rng(0)}, "cannot be kept in a checkpoint, which holds no code"),
        (lambda: {"read": np.arange(3)}, "cannot be kept in a checkpoint"),
        (lambda: {"lock": threading.Lock()}, "cannot be kept in a checkpoint"),
        (lambda of: {}, "train_data.state_dict() raises TypeError"),
    ],
    ids=["a generator", "an array", "a lock", "with an argument"],
)
def test_a_position_that_cannot_be_saved(position, told):
    refused(Positions(position), told)


def test_a_stream_that_ends_for_good():
    class Ends(Lines):
        def __iter__(self):
            while self.next < EXAMPLES:
                self.next += 1
                yield X[self.next - 1], Y[self.next - 1]

    model = Watched()
    with pytest.raises(ValueError, match=r"train_data has ended after 9 of 12 steps.*or set steps=9"):
        train(model, Ends(), None, replace(CONFIG, steps=12))
    assert len(model.batches) == 9 and len(trained_on(Ends(), replace(CONFIG, steps=9))) == 9


def test_settings_that_a_stream_cannot_have():
    refused(Lines(), "workers is 2, but a stream is read in this process", config=replace(CONFIG, workers=2))
    refused(Lines(), "order is given, but train_data is a stream", order=lambda step: [0])
    refused(
        Loader(), "drop_last is True, but train_data (Loader) yields batches", config=replace(BATCHES, drop_last=True)
    )
    refused(Loader(), "collate is given, but train_data (Loader)", config=BATCHES, collate=lambda examples: examples)


class Yields:
    """Batches that are what it is given."""

    def __init__(self, *batches):
        self.batches, self.next = batches, 0

    def __iter__(self):
        while self.next < len(self.batches):
            self.next += 1
            yield self.batches[self.next - 1]
        self.next = 0

    def state_dict(self):
        return {"next": self.next}

    def load_state_dict(self, state):
        self.next = state["next"]


@pytest.mark.parametrize(
    ("batch", "told"),
    [
        ({"ids": X, "labels": Y}, "batch 1 of train_data is a dict with ids, labels: it must be a pair"),
        ((X, Y, Y), "is a tuple"),
        (X, "is a Tensor"),
        ((X.numpy(), Y.numpy()), "is a tuple"),
        (({"x": X, "title": "a"}, Y), "has 'a' at x['title'], of type str"),
        ((X[:4], Y[:3]), "has shapes (4, 1), (3,)"),
        ((X[:0], Y[:0]), "at least one"),
    ],
    ids=["a dict", "three", "one", "arrays", "a string", "unequal", "empty"],
)
def test_batches_that_are_no_pairs(batch, told):
    refused(Yields(batch), told, config=BATCHES)
    with pytest.raises(ValueError, match=re.escape(told.replace("batch 1", "batch 3"))):
        train(Watched(), Yields((X, Y), (X[:5], Y[:5]), batch), None, BATCHES)


def test_a_stream_of_dicts_is_told_how_to_make_pairs():
    class Dicts(Lines):
        def __iter__(self):
            yield from ({"text": "some", "ids": x, "labels": y} for x, y in super().__iter__())

    model = Watched()
    call = {"model": model, "train_data": Dicts(), "config": CONFIG}
    message = refusal(call, "a dict with text, ids, labels")
    message = message.replace("batch['text']", "batch['ids']")  # the guess is for the reader to put right
    train(**followed(message, call, "collate", program=0))
    assert model.batches == trained_on(Lines())


def test_an_error_in_it_names_the_batch():
    class Broken(Lines):
        def __iter__(self):
            for number, pair in enumerate(super().__iter__()):
                if number == 55:
                    raise OSError("connection reset")
                yield pair

    with pytest.raises(RuntimeError, match="could not read batch 6 of train_data: OSError: connection reset"):
        train(Watched(), Broken(), None, CONFIG)

    class Ragged(Lines):
        def __iter__(self):
            yield from ((x.expand(1 + (number == 55)), y) for number, (x, y) in enumerate(super().__iter__()))

    with pytest.raises(RuntimeError, match="could not make one batch of 10 examples, batch 6 of train_data"):
        train(Watched(), Ragged(), None, CONFIG)


def test_a_gradient_that_is_not_finite_names_the_batch_and_the_place_in_it():
    class Spoilt(Lines):
        def __iter__(self):
            yield from ((x / 0 if number == 57 else x, y) for number, (x, y) in enumerate(super().__iter__()))

    told = r"of step 6 .*, batch 6 of train_data\): the input is not finite.*Look at example \[7\] of this batch"
    with pytest.raises(FloatingPointError, match=told):
        train(nn.Linear(1, 2), Spoilt(), None, CONFIG)
    skipping = replace(CONFIG, nonfinite="skip")
    assert train(nn.Linear(1, 2), Spoilt(), None, skipping).skipped == 1

    class Labels(Lines):
        def __iter__(self):
            yield from ((x, y + 5 * (number == 57)) for number, (x, y) in enumerate(super().__iter__()))

    with pytest.raises(ValueError, match=r"step 6, batch 6 of train_data: .*out of range"):
        train(nn.Linear(1, 2), Labels(), None, CONFIG)


@pytest.mark.parametrize(
    "stream", [Lines(), Plain(), Loader(), pairs_of_batches()], ids=lambda stream: type(stream).__name__
)
def test_a_stream_to_validate_on_is_refused_with_the_lines_that_take_a_part(stream):
    data = TensorDataset(X, Y)
    lines = refused(data, "val_data is a", "every validation covers the same examples", val_data=stream)
    held_out = run_lines(lines, model=Watched(), train_data=data, val_data=stream)["held_out"]
    assert len(held_out) >= 80 and len(held_out[0]) == 2
    with pytest.raises(ValueError, match="data is a"):
        evaluate(Watched(), stream)


def test_a_loader_of_a_stream_to_validate_on():
    loader = DataLoader(Plain(), batch_size=10)
    lines = refused(TensorDataset(X, Y), "val_data is a DataLoader", val_data=loader)
    assert len(run_lines(lines, model=Watched(), train_data=TensorDataset(X, Y), val_data=loader)["held_out"]) == 90


def test_what_a_counted_stream_draws_is_keyed_by_its_seed_pass_and_item():
    def numbers():
        for _ in range(5):
            yield random.random()

    stream = Positioned(numbers, seed=3)
    passes = [[*stream], [*stream]]
    assert passes[0] != passes[1] and stream.state_dict() == {"passes": 2, "items": 0}
    again = Positioned(numbers, seed=3)
    again.load_state_dict({"passes": 1, "items": 2})
    assert [*again] == passes[1][2:]
    assert [*Positioned(numbers, seed=4)] != passes[0]
    random.seed(derive_seed(3, "item", 0, 0))
    assert passes[0][0] == random.random()


# ---- several ranks ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_rank_has_a_stream_of_its_own(tmp_path, forked_python):
    """Together they train on what one process trains on; and so they do after two resumes."""
    whole = on_ranks(forked_python, 2, tmp_path, "stream")
    alone = on_ranks(forked_python, 1, tmp_path, "stream")[0]
    assert whole[0]["weights"] == whole[1]["weights"] == pytest.approx(alone["weights"], abs=1e-12)
    assert whole[0]["losses"] == pytest.approx(alone["losses"], abs=1e-12)
    for steps in (2, 4, 6):
        resumed = on_ranks(forked_python, 2, tmp_path, f"stream to {steps}")
    assert [outcome["weights"] for outcome in resumed] == [outcome["weights"] for outcome in whole]
    assert [outcome["losses"] for outcome in resumed] == [outcome["losses"] for outcome in whole]
    other = on_ranks(forked_python, 1, tmp_path, "stream to 8")[0]
    assert "the checkpoint is of 2 ranks, each with a stream of its own" in other["error"]


@pytest.mark.slow
def test_ranks_that_read_the_same_are_refused_with_the_lines_that_share_it(tmp_path, forked_python):
    for outcome in on_ranks(forked_python, 2, tmp_path, "same stream"):
        assert "ranks 0 and 1 read the same first batch" in outcome["error"]
    shared = on_ranks(forked_python, 2, tmp_path, "shared stream")
    assert {index % 2 for batch in shared[0]["batches"] for index in batch} == {0}
    assert {index % 2 for batch in shared[1]["batches"] for index in batch} == {1}


@pytest.mark.slow
def test_batches_that_differ_in_size_between_ranks(tmp_path, forked_python):
    """Also in micro-batches, as many on every rank, and where one of them begins a new pass before the others."""
    uneven = on_ranks(forked_python, 2, tmp_path, "uneven stream")
    assert uneven[0]["weights"] == uneven[1]["weights"]
    micro_batches = [[len(batch) for batch in outcome["batches"]] for outcome in uneven]
    assert [sizes[:6] for sizes in micro_batches] == [[1, 1, 1] * 2, [2, 2, 1] * 2]
    assert len(micro_batches[0]) == len(micro_batches[1]) == 3 * 9 - 1  # once a batch has two examples
