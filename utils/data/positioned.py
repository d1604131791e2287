"""A position for a stream that has none: how many of its items were read."""

from collections.abc import Callable, Iterable, Iterator
from itertools import count

from torch.utils.data import IterableDataset

from utils.data.order import derive_seed, seed_streams_of_host


class Positioned:
    """A stream of batches (x, y) that says its position.

    begin: returns what one pass iterates over, always from its beginning. A run that is resumed reads again, and leaves out,
    what it has read in this pass: where that takes long, write state_dict and load_state_dict of your own.
    The global streams of torch, NumPy and Python are seeded for (seed, pass, item) before each item, so that what draws
    from them, such as a shuffle, is the same when it is read again.
    """

    def __init__(self, begin: Callable[[], Iterable], seed: int = 0):
        self.begin, self.seed = begin, seed
        self.passes, self.items = 0, 0  # passes that have ended, items read since

    def __iter__(self) -> Iterator:
        seed_streams_of_host(derive_seed(self.seed, "pass", self.passes))
        items, end = iter(self.begin()), object()
        for number in count():
            seed_streams_of_host(derive_seed(self.seed, "item", self.passes, number))
            if (item := next(items, end)) is end:
                break
            if number >= self.items:
                self.items = number + 1  # before it is handed out: whoever has it asks for the position
                yield item
        self.passes, self.items = self.passes + 1, 0

    def state_dict(self) -> dict[str, int]:
        return {"passes": self.passes, "items": self.items}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.passes, self.items = state["passes"], state["items"]


class PositionedExamples(Positioned, IterableDataset):
    """The same of single examples, of which `train` makes batches of config.batch_size."""
