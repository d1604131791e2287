"""Examples that draw from a stream which nobody seeds: workers repeat its numbers, and a resumed run gets others."""

import pickle
import random
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from utils.data.order import Collated, Order, batches, device_of
from utils.loop.reading import digest_of

LOOKED_AT = 4  # examples
DEPTH = 5  # of attributes in attributes and in short lists
SEEDED = {  # how a generator at `place` is seeded by the stream that is seeded for each example
    torch.Generator: "{place}.manual_seed(torch.initial_seed())",
    np.random.RandomState: "{place}.seed(torch.initial_seed() % 2**32)",
    np.random.Generator: "{place} = numpy.random.default_rng(torch.initial_seed())",
    random.Random: "{place}.seed(torch.initial_seed())",
}


def check_draws(data: Dataset, name: str, workers: int, say: bool) -> None:
    """Fetch a few examples twice, with the same seeds: they are the same, and leave every generator that `data` carries in
    the same state, as one does that is seeded for each example.

    Otherwise raises ValueError with workers, and prints that a resumed run will differ without them, if `say`.
    """
    if getattr(data, "pure", False):
        return
    carried = dict(generators_in(data))
    order = Order(len(data), 1, shuffle=False, device=device_of(data))
    digests, states = [], []
    for _ in range(2):
        digests.append(digest_of([*batches(data, order, 0, min(LOOKED_AT, len(data)))]))
        states.append([_state(generator) for generator in carried.values()])
    moved = [place for place, one, other in zip(carried, *states, strict=True) if one != other]
    if not moved and digests[0] == digests[1]:
        return
    found = f", {type(carried[moved[0]]).__name__} at {name}{moved[0]}" if moved else ""
    text = (
        f"{name}: what an example draws at random is not keyed by its index: it comes from a stream that it carries "
        f"along{found}. A resumed run goes on with other numbers"
    )
    if workers:
        lines = _lines(name, *(moved[0], carried[moved[0]]) if moved else ("", None))
        raise ValueError(f"{text}, and each of {workers} workers has a copy of it and draws the same. {lines}")
    if say:
        print(f"{text}; to key it, see what workers=1 says")


def _state(generator: object) -> bytes:
    if isinstance(generator, torch.Generator):
        return generator.get_state().numpy().tobytes()
    return pickle.dumps(generator)


def _lines(name: str, place: str, generator: object) -> str:
    if generator is None:
        return (
            "Draw from the global streams of torch, NumPy or Python, which are seeded for each example, or make a generator "
            "in __getitem__:\n"
            "    generator = numpy.random.default_rng(torch.initial_seed())"
        )
    seeding = next(line for kind, line in SEEDED.items() if isinstance(generator, kind))
    return f"""Draw from torch's global stream, which is seeded for each example, or seed the other by it:
    import numpy
    class Seeded(torch.utils.data.Dataset):
        def __init__(self, dataset):
            self.dataset = dataset
        def __len__(self):
            return len(self.dataset)
        def __getitem__(self, index):
            {seeding.format(place=f"self.dataset{place}")}
            return self.dataset[index]
    {name} = Seeded({name})"""


def generators_in(thing: object, place: str = "", depth: int = DEPTH) -> Iterator[tuple[str, object]]:
    """(place, generator) of each that is an attribute of `thing`, or of a part of it: a transform, say."""
    if isinstance(thing, tuple(SEEDED)):
        yield place, thing
    elif isinstance(thing, Collated):
        yield from generators_in(thing.dataset, place, depth)
    elif depth and isinstance(thing, list | tuple) and len(thing) < 100:  # more are data
        for number, part in enumerate(thing):
            yield from generators_in(part, f"{place}[{number}]", depth - 1)
    elif depth and not isinstance(thing, type | Tensor | np.ndarray):
        for attribute, part in getattr(thing, "__dict__", {}).items():
            yield from generators_in(part, f"{place}.{attribute}", depth - 1)
