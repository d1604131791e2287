"""Examples that draw from a stream which nobody seeds are noticed: workers would repeat its numbers."""

import random
import textwrap
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, Subset, TensorDataset

from utils.loop import Config, train

X = torch.linspace(-1, 1, 24)[:, None]
Y = (X[:, 0] > 0).long()
CONFIG = Config(steps=6, batch_size=4, lr=0.05, device="cpu", workers=2)


class Noise:
    """A transform, as libraries have them: the numbers that it adds come from a generator of its own."""

    def __init__(self, generator, draw, rare: float = 1.0):
        self.generator, self.draw, self.rare = generator, draw, rare

    def __call__(self, x):
        return x + (self.draw(self.generator) if self.draw(self.generator) < self.rare else 0)


class Augmented(Dataset):
    def __init__(self, *transforms):
        self.transforms = list(transforms)

    def __len__(self):
        return len(X)

    def __getitem__(self, i):
        x = X[i]
        for transform in self.transforms:
            x = transform(x)
        return x.float(), Y[i]


KINDS = {
    "torch": partial(Noise, torch.Generator().manual_seed(0), lambda g: torch.rand((), generator=g).item()),
    "NumPy": partial(Noise, np.random.default_rng(0), lambda g: g.random()),
    "NumPy, of old": partial(Noise, np.random.RandomState(0), lambda g: g.rand()),
    "Python": partial(Noise, random.Random(0), lambda g: g.random()),
}


class Watched(nn.Linear):
    """Keeps what it has trained on."""

    def __init__(self):
        torch.manual_seed(0)
        super().__init__(1, 2)
        self.seen = []

    def forward(self, x):
        if self.training and torch.is_grad_enabled():
            self.seen += x[:, 0].tolist()
        return super().forward(x)


def trained_on(data, config=CONFIG, **options) -> list[float]:
    model = Watched()
    train(model, data, None, config, **options)
    return model.seen


def refused(data, *words: str, **options) -> list[str]:
    model = Watched()
    with pytest.raises(ValueError) as error:
        train(model, data, options.pop("val_data", None), CONFIG, **options)
    assert not model.seen and all(word in str(error.value) for word in words), error.value
    return [line for line in str(error.value).splitlines() if line.startswith("    ")]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rare", [1.0, 0.01], ids=["always", "seldom"])
def test_a_generator_that_the_data_carry_is_refused_with_the_lines_that_seed_it(kind, rare):
    """Also where it seldom changes an example."""
    data = Augmented(abs, KINDS[kind](rare=rare))
    lines = refused(data, "train_data: what an example draws", "at train_data.transforms[1].generator", "2 workers")
    names = {"torch": torch, "train_data": data}
    exec(textwrap.dedent("\n".join(lines)), names)
    assert trained_on(names["train_data"]) == trained_on(names["train_data"], replace(CONFIG, workers=0))


def test_workers_repeat_nothing_once_it_is_seeded():
    """What was drawn for 24 examples: 12 different numbers before."""
    data = Augmented(lambda x: 0 * x, KINDS["torch"]())
    names = {"torch": torch, "train_data": data}
    exec(textwrap.dedent("\n".join(refused(data))), names)
    assert len(set(trained_on(names["train_data"]))) == 24


@pytest.mark.parametrize(
    "wrap", [lambda data: Subset(data, range(20)), lambda data: data], ids=["a subset", "with collate"]
)
def test_wherever_it_is_carried(wrap):
    collate = None if wrap(X) is not X else torch.utils.data.default_collate
    place = "train_data.dataset.transforms[0].generator" if collate is None else "train_data.transforms[0].generator"
    lines = refused(wrap(Augmented(KINDS["NumPy"]())), f"Generator at {place}", collate=collate)
    names = {"torch": torch, "train_data": wrap(Augmented(KINDS["NumPy"]()))}
    exec(textwrap.dedent("\n".join(lines)), names)
    assert trained_on(names["train_data"], collate=collate)


def out_of_sight():
    numbers = np.random.default_rng(0)
    return lambda x: x + numbers.random()


def never_the_same():
    return lambda x: x + np.random.default_rng().random()


@pytest.mark.parametrize("make", [out_of_sight, never_the_same])
def test_a_generator_out_of_sight_is_noticed_by_what_it_does(make):
    lines = refused(Augmented(make()), "what an example draws at random is not keyed by its index")
    assert lines == ["    generator = numpy.random.default_rng(torch.initial_seed())"]

    def keyed(x):
        names = {"numpy": np, "torch": torch}
        exec(lines[0].strip(), names)
        return x + names["generator"].random()

    seen = trained_on(Augmented(lambda x: 0 * x, keyed))
    assert len(set(seen)) == 24 and seen == trained_on(Augmented(lambda x: 0 * x, keyed), replace(CONFIG, workers=0))


def test_without_workers_it_is_said(capsys):
    assert len(set(trained_on(Augmented(lambda x: 0 * x, KINDS["torch"]()), replace(CONFIG, workers=0)))) == 24
    assert "A resumed run goes on with other numbers" in capsys.readouterr().out


def test_validation_data_too():
    refused(TensorDataset(X, Y), "val_data: what an example draws", val_data=Augmented(KINDS["Python"]()))


def test_a_generator_that_no_example_draws_from_is_let_be(capsys):
    """One that has made the split, say; and what draws from the global streams."""

    class Split(Augmented):
        def __init__(self, *transforms):
            super().__init__(*transforms)
            self.generator = np.random.default_rng(0)

    globally = lambda x: x + torch.rand(1) + np.random.rand() + random.random()  # noqa: E731, NPY002
    assert len(trained_on(Split(globally))) == 24 and "draws" not in capsys.readouterr().out
