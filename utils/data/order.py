"""Which examples make up which step, and the loader that fetches them.

The order is a pure function of (seed, epoch, step): nothing is replayed to start in the middle of an epoch, and nothing
but the step number needs to be saved. What a dataset draws at random for an example is keyed by (seed, epoch, index), so
it is the same for any number of workers.
"""

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from functools import lru_cache
from multiprocessing.sharedctypes import RawArray

import numpy as np
import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from utils.data.permutation import permuted
from utils.data.refusals import loader_message, says_its_position, stream_message
from utils.data.trees import Tree, pinned, stack
from utils.data.workers import FAILED, from_workers
from utils.device import rng_state, set_rng_state

CPU = torch.device("cpu")
PADDED = """; if their lengths differ, have them padded, and pass collate=collate:
    from torch.nn.utils.rnn import pad_sequence
    def collate(examples):
        x, y = zip(*examples)
        return pad_sequence(x, batch_first=True), pad_sequence(y, batch_first=True, padding_value=-100)"""
LISTED = 1 << 22  # examples whose order is drawn as a list; with more, each position is computed when it is needed


def derive_seed(*parts: int | str) -> int:
    """A 63-bit seed from any numbers and names; unlike seed + epoch, (3, 5) and (5, 3) give different streams."""
    digest = hashlib.blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


@lru_cache(maxsize=4)
def _permutation(examples: int, seed: int, epoch: int, device: torch.device) -> torch.Tensor:
    generator = torch.Generator().manual_seed(derive_seed(seed, "order", epoch))
    return torch.randperm(examples, generator=generator).to(device)  # drawn on the CPU: the same on every device


class Shares:
    """What each rank takes of a step's batch. A subclass says how large that is, and of which examples.

    Of each batch, rank r of `world` takes every world-th index. A rank without one gets a duplicate, which is not counted,
    if `pad`.
    """

    rank: int
    world: int
    pad: bool

    def size(self, step: int) -> int:
        """Examples in the batch of `step`, over all ranks."""
        raise NotImplementedError

    def batch(self, step: int) -> torch.Tensor:
        """Indices (B,) of all examples at `step`, over all ranks."""
        raise NotImplementedError

    def smallest_share(self, step: int) -> int:
        """Examples of the rank that has the fewest at `step`: at least one, which may be padding."""
        return max(1, self.size(step) // self.world)

    def indices(self, step: int) -> torch.Tensor:
        """Indices (B,) of this rank's examples at `step`."""
        chosen = self.batch(step)
        if self.is_padding(step):
            return chosen[:1]
        return chosen[self.rank :: self.world] if self.world > 1 else chosen

    def places(self, step: int) -> Sequence[int]:
        """Where this rank's examples stand in the batch of `step`."""
        return [0] if self.is_padding(step) else range(self.rank, self.size(step), self.world)

    def is_padding(self, step: int) -> bool:
        """Whether this rank's example at `step` is a duplicate: the batch has fewer examples than there are ranks."""
        return self.pad and self.world > 1 and self.rank >= self.size(step)

    def count(self, first: int, stop: int) -> int:
        """Examples in the batches of steps `first` … `stop` - 1, over all ranks."""
        return sum(map(self.size, range(first, stop)))


@dataclass(frozen=True)
class Order(Shares):
    """The order of batches: step → indices into a dataset of `examples`.

    Every epoch visits every example once, in an order of its own (in index order if not `shuffle`). A last batch
    that is short is kept, or left out with `drop_last`.

    Raises ValueError for an empty dataset, a batch size below 1, and a batch larger than the data with `drop_last`.
    """

    examples: int
    batch_size: int
    seed: int = 0
    shuffle: bool = True
    drop_last: bool = False
    rank: int = 0
    world: int = 1
    device: torch.device = CPU  # where the indices live
    pad: bool = False

    def __post_init__(self):
        if self.examples < 1:
            raise ValueError("the dataset is empty: nothing to train or evaluate on")
        if self.batch_size < 1:
            raise ValueError(f"batch_size is {self.batch_size}: it must be at least 1")
        if self.steps_per_epoch < 1:
            raise ValueError(
                f"batch_size {self.batch_size} is larger than the data ({self.examples} examples) and drop_last "
                "leaves out every batch: use a smaller batch or drop_last=False"
            )
        if not 0 <= self.rank < self.world:
            raise ValueError(f"rank {self.rank} is not one of {self.world} ranks")

    @property
    def steps_per_epoch(self) -> int:
        full, rest = divmod(self.examples, self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def size(self, step: int) -> int:
        return min(self.batch_size, self.examples - step % self.steps_per_epoch * self.batch_size)

    def smallest_micro_batch(self, steps: int, count: int) -> int:
        """Examples in the smallest micro-batch of one rank within `steps` steps, if each batch is split into `count`."""
        last = min(steps, self.steps_per_epoch) - 1  # an epoch's last batch may be short
        return min(share // min(count, share) for share in (self.smallest_share(0), self.smallest_share(last)))

    def epoch(self, step: int) -> int:
        """The epoch that `step` (counted from 0 over the whole run) belongs to."""
        return step // self.steps_per_epoch

    def occasions(self, step: int) -> list[int | str]:
        """When each of this rank's examples at `step` is visited: its random draws are keyed by that, and by its index."""
        return [self.epoch(step)] * len(self.places(step))

    def next_epoch(self, step: int) -> int:
        """The first step of the epoch after that of `step`."""
        return (self.epoch(step) + 1) * self.steps_per_epoch

    def batch(self, step: int) -> torch.Tensor:
        epoch, batch = divmod(step, self.steps_per_epoch)
        start = batch * self.batch_size
        stop = start + self.size(step)
        if self.shuffle and self.examples > LISTED:
            keys = [derive_seed(self.seed, "order", epoch, turn) for turn in range(6)]
            images = permuted(np.arange(start, stop, dtype=np.uint64), self.examples, keys)
            return torch.from_numpy(images.astype(np.int64)).to(self.device)
        if self.shuffle:
            return _permutation(self.examples, self.seed, epoch, self.device)[start:stop]
        return torch.arange(start, stop, device=self.device)


@contextmanager
def kept_streams() -> Iterator[None]:
    """Put the global streams of the CPU back afterwards: torch's, NumPy's and Python's. Faster than own_random_streams."""
    kept = torch.get_rng_state(), np.random.get_state(), random.getstate()  # noqa: NPY002
    try:
        yield
    finally:
        torch.set_rng_state(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002
        random.setstate(kept[2])


def seed_streams_of_host(seed: int) -> None:
    """Seed the global streams that code on the CPU draws from: torch's, NumPy's and Python's."""
    torch.default_generator.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  (the global stream, because that is what datasets draw from)
    random.seed(seed)


@dataclass(frozen=True)
class Collated(Dataset):
    """A dataset whose examples `collate` makes a batch of: list of examples → (x, y)."""

    dataset: Dataset
    collate: Callable[[list], tuple[Tree, Tree]]

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> object:
        return self.dataset[index]


class _Fetch(Dataset):
    """Answers (occasions, indices) with a batch, whoever asks: this process or a worker."""

    def __init__(self, dataset: Dataset, seed: int, workers: int = 0):
        self.dataset, self.seed = dataset, seed
        self.at_work = RawArray("q", [-1] * workers)  # the example that each worker fetches; shared with this process

    def __getitems__(self, key: tuple[list[int | str], torch.Tensor | list[int]]):
        occasions, indices = key
        if getattr(self.dataset, "pure", False):
            for first in indices[:1]:
                self._begin(int(first))  # and the rest with it
            return self.dataset.batch(indices)
        kept = rng_state()  # what an example draws must not move the streams of the model
        try:
            return self._together(
                [self._example(*pair) for pair in zip(occasions, map(int, indices), strict=True)], indices
            )
        finally:
            set_rng_state(kept)

    def _together(self, examples: list, indices: torch.Tensor | list[int]):
        collate = getattr(self.dataset, "collate", stack)
        try:
            return collate(examples)
        except Exception as error:
            named = ", ".join(str(int(index)) for index in indices)
            advice = advice_on_stacking(examples[0], error) if collate is stack else ", in your collate"
            raise RuntimeError(f"{FAILED}s {named} as one batch: {type(error).__name__}: {error}{advice}") from error

    def _begin(self, index: int) -> None:
        if worker := get_worker_info():
            self.at_work[worker.id] = index

    def _example(self, epoch: int | str, index: int):
        self._begin(index)
        seed_streams_of_host(derive_seed(self.seed, "example", epoch, index))
        try:
            return self.dataset[index]
        except Exception as error:
            when = epoch if isinstance(epoch, str) else f"epoch {epoch}"
            raise RuntimeError(f"{FAILED} {index} in {when}: {type(error).__name__}: {error}") from error


def advice_on_stacking(example: object, error: Exception) -> str:
    """What to do about examples that do not stack, of which this is the first."""
    unknown = [type(leaf) for leaf in tree_leaves(example) if is_dataclass(leaf)]
    if unknown and isinstance(error, TypeError):
        return f". A dataclass stacks once torch knows it:\n    torch.export.register_dataclass({unknown[0].__name__})"
    if isinstance(example, tuple | list) and all(isinstance(part, torch.Tensor) for part in example):
        return f". All must be of one shape and type{PADDED}"
    return ". All must be of one form, shape and type; if their lengths differ, pad them in a collate of your own"


@dataclass(frozen=True)
class _Keys:
    """What the workers are asked for, one key a step."""

    order: Shares
    steps: range

    def __iter__(self):
        for step in self.steps:
            yield self.order.occasions(step), self.order.indices(step).tolist()


def batches(
    dataset: Dataset,
    order: Shares,
    start: int,
    stop: int,
    *,
    workers: int = 0,
    prefetch: int = 2,
    persistent: bool = True,
    timeout: float = 0,
    pin: bool = False,
) -> Iterator:
    """The batches of steps `start` … `stop` - 1, the same for any number of workers and any `start`.

    A dataset with the attribute `pure = True` promises that an example depends on its index alone and is fetched a batch
    at a time by `batch(indices)`. Of any other, `dataset[index]` is called with the global streams of torch, NumPy
    and Python seeded for (seed, epoch, index), or for (seed, step, place in the batch, index) where the order has no
    epochs; a generator of its own that it carries along is outside this promise.

    workers: processes that fetch ahead, `prefetch` batches each. persistent: keep them over epochs instead of starting
    new ones. timeout: seconds to wait for a worker's batch; 0 waits for ever. pin: hand out page-locked memory, which a GPU
    copies from without waiting.

    Raises RuntimeError, naming the example, if it cannot be fetched, its worker ends, or the time is over.
    """
    if workers == 0:
        fetch = _Fetch(dataset, order.seed)
        for step in range(start, stop):
            batch = fetch.__getitems__((order.occasions(step), order.indices(step)))
            yield pinned(batch) if pin else batch
        return
    first = start
    while first < stop:
        last = stop if persistent else min(stop, order.next_epoch(first))
        fetch, keys = _Fetch(dataset, order.seed, workers), _Keys(order, range(first, last))
        ahead = min(prefetch, last - first)  # a loader asks for so many at once, also where there are none
        yield from from_workers(fetch, keys, timeout, num_workers=workers, prefetch_factor=ahead, pin_memory=pin)
        first = last


def is_stream(data: object) -> bool:
    """Whether `data` is read from its beginning on, not by an index, and says its position.

    An IterableDataset yields examples; anything else, such as torchdata's StatefulDataLoader, batches.
    """
    indexed = hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, IterableDataset)
    return not indexed and not isinstance(data, type) and hasattr(data, "__iter__") and says_its_position(data)


def require_dataset(data: object, name: str) -> None:
    """Raises ValueError unless `data` has a length and can be indexed, as batches in any order need.

    name: of the argument, train_data, val_data or (of evaluate) data.
    """
    if isinstance(data, DataLoader):
        raise ValueError(loader_message(data, name))
    if isinstance(data, IterableDataset) or not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        if hasattr(data, "__iter__") and not isinstance(data, type):
            raise ValueError(stream_message(data, name))
        raise ValueError(
            f"{name} is a {type(data).__name__} without a length or an index: pass a dataset of (x, y) pairs, "
            "TensorData(x, y) for two tensors"
        )
    try:
        len(data)
    except Exception as error:
        raise ValueError(
            f"{name} is a {type(data).__name__} whose length is none ({type(error).__name__}: {error}): pass a dataset, not "
            "its class, whose __len__ returns how many examples there are"
        ) from error


def with_collate(dataset: object, collate: Callable | None, name: str) -> Dataset:
    """The dataset, with its batches made by `collate` if there is one.

    Raises ValueError unless it is a dataset (see require_dataset), and `collate` a function.
    """
    require_dataset(dataset, name)
    if collate is None:
        return dataset
    if not callable(collate):
        raise ValueError(f"collate is {collate!r}: pass a function of a list of examples that returns (x, y)")
    return Collated(dataset, collate)


def first_examples(dataset: Dataset, n: int) -> tuple[Tree, Tree]:
    """The first n examples as a batch (or all, if there are fewer)."""
    order = Order(len(dataset), min(n, len(dataset)), shuffle=False, device=device_of(dataset))
    return next(batches(dataset, order, 0, 1))


def device_of(dataset: Dataset) -> torch.device:
    """Where the examples lie: the CPU, unless the dataset has a `device`."""
    return getattr(dataset, "device", CPU)
