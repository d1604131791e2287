"""Which examples each step trains on, where the data are not simply shuffled: an order of the caller's own, or a stream."""

import copy
import hashlib
import io
from collections.abc import Callable, Iterator
from itertools import islice

import torch
from torch import Tensor
from torch.utils.data import Dataset, IterableDataset, Subset, TensorDataset

from utils.data.order import CPU, Collated, advice_on_stacking, derive_seed, kept_streams, seed_streams_of_host
from utils.data.own_order import OwnOrder
from utils.data.trees import named_leaves, pinned, rows, shortened, stack, tensors, update_digest
from utils.distributed.ranks import Ranks
from utils.loop.config import Config

END = object()  # of a pass over a stream


def own_order(
    function: Callable[[int], list[int] | Tensor], examples: int, config: Config, ranks: Ranks, device: torch.device
) -> OwnOrder:
    """The order that `function` says. Raises ValueError where it contradicts the config, and as OwnOrder does."""
    order = OwnOrder(
        function,
        examples,
        config.steps,
        config.seed,
        rank=ranks.rank,
        world=ranks.world,
        device=device,
        ahead=config.workers * config.prefetch,
    )
    if config.drop_last:
        raise ValueError(
            "drop_last is True, but order says what each step takes, and no epoch ends with a short batch: leave it out"
        )
    if len(order.sizes) == 1:
        require_same_size(*order.sizes, config, "order gives")
    return order


def examples_of_first_batch(data: Dataset, order: OwnOrder) -> Dataset:
    """What to try before the first step: two examples that never share a batch may not fit into one.

    Two tensors are returned whole, since all their targets can be looked at.
    """
    if getattr(data, "pure", False) or isinstance(data, TensorDataset):
        return data
    indices = order.batch(0).tolist()
    if isinstance(data, Collated):
        return Collated(Subset(data.dataset, indices), data.collate)
    return Subset(data, indices)


def require_same_size(size: int, config: Config, who: str) -> None:
    """Raises ValueError if the config was given another batch size than `size`, of which there is no doubt."""
    if config.batch_size not in (Config.batch_size, size):
        raise ValueError(
            f"batch_size is {config.batch_size}, but {who} {size} examples for a step, and these are what it trains on: "
            "leave batch_size out of the config, or make them one number"
        )


class Stream:
    """Batches that are read one after the other, one for each step, of data that say their position.

    An IterableDataset yields examples, and this rank's share of config.batch_size of them is a batch; anything else yields
    this rank's batches. Each rank has a stream of its own. Its position is part of a checkpoint. At its end another pass
    begins. The global streams are seeded for (seed, rank, step) before each read, and put back afterwards.

    Entered, it can be read; at the end the data stand where they stood before.

    Raises ValueError if the config asks for what a stream cannot do.
    """

    examples = "a stream"  # where others say how many there are

    def __init__(self, data: object, config: Config, order: object, collate: Callable | None, ranks: Ranks):
        self.data, self.config, self.ranks = data, config, ranks
        self.collate = collate or stack
        self.share = None  # examples of a batch of this rank; None: the data yield batches
        if order is not None:
            raise ValueError("order is given, but train_data is a stream, which has one of its own: leave order out")
        if config.workers:
            raise ValueError(
                f"workers is {config.workers}, but a stream is read in this process, one batch at a time: set workers=0, or "
                "pass torchdata's StatefulDataLoader, which has workers of its own and knows how far they are"
            )
        if isinstance(data, IterableDataset):
            full, rest = divmod(config.batch_size, ranks.world)
            self.share = full + (ranks.rank < rest)
            if not full:
                raise ValueError(
                    f"batch_size is {config.batch_size}, but each of {ranks.world} ranks needs an example: raise it"
                )
        elif collate is not None or config.drop_last:
            given = "collate is given" if collate is not None else "drop_last is True"
            raise ValueError(
                f"{given}, but train_data ({type(data).__name__}) yields batches that are made already: have it do so (a "
                "loader by collate_fn and drop_last), or pass an IterableDataset, which yields examples"
            )
        self.start = None  # the position before the first batch
        self.iterator = None
        self.last = self.last_step = None  # the batch read last, and of which step it is
        self.sizes = {}  # {step: examples of this rank's batch} since they were counted
        self.smallest = 1
        self.trying = True  # not yet sure that it yields pairs
        self.said_end = False
        self.after_load = None  # of the first batch after a resume its digest; True until that is read

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *error) -> None:
        self.iterator = self.last = None
        if self.start is not None:
            self._go_to(self.start)

    def try_out(self) -> "FirstBatch":
        """Read a few batches, go back by one and read it again; then stand at the beginning. Returns the first batch.

        Raises ValueError unless it is the same again, if the position cannot be saved, or if two ranks read the same.
        """
        self.start = self.state_dict()
        workers = getattr(self.data, "num_workers", 0)  # of a loader: the second batch of one shows what it keeps
        number = max(1, workers) + 1
        read = [self._read(step) for step in range(number - 1)]
        position = self.state_dict()
        read.append(self._read(number - 1))
        self._go_to(position)
        again = digest_of(self._read(number - 1))
        if again != digest_of(read[-1]):
            what = "the batch before it, again" if again == digest_of(read[-2]) else "another one"
            raise ValueError(
                f"train_data ({type(self.data).__name__}) went back to its position before batch {number}, and yielded "
                f"not that but {what}: a resumed run would not be the same. Its state_dict must say what was handed out "
                "(count before yield, not after), and what it draws at random must come from that state, or from the global "
                "streams of this process, which are seeded for each step; those of its workers are not. Or have its items "
                f"counted from outside, and read again, if begin() makes a new {type(self.data).__name__}: pass "
                f"{COUNTED[self.share is not None]}"
            )
        first = read[0]
        self._require_streams_that_differ(first)
        if self.share is None:
            size = sum(self.ranks.gather(size_of(first)))
            require_same_size(size, self.config, "the first batch of train_data has")
        self._go_to(self.start)
        self.trying, self.sizes = False, {}
        self.first_digest = digest_of(first)
        return FirstBatch(first)

    def _require_streams_that_differ(self, first: list) -> None:
        digests = self.ranks.gather(digest_of(first))
        for rank, digest in enumerate(digests):
            if digest in digests[:rank]:
                raise ValueError(
                    f"ranks {digests.index(digest)} and {rank} read the same first batch: each rank needs a stream of its "
                    f"own, or examples count twice{APART[self.share is not None]}"
                )

    def read(self, start: int, stop: int, pin: bool) -> Iterator:
        """The batches of steps `start` … `stop` - 1: where the data stand now is before that of `start`."""
        for step in range(start, stop):
            batch = self._read(step)
            yield pinned(batch) if pin else batch

    def _read(self, step: int) -> list:
        with kept_streams():
            if self.iterator is None:
                self._begin(step)
            batch = self._take(step)
            if batch is END:
                batch = self._take_of_next_pass(step)
            elif self.after_load is True:
                self.after_load = digest_of(batch)
        if not (self.trying and self.share is not None):  # what its examples are is looked at before the first step
            self._require_batch(batch, step)
        size = size_of(batch)
        self.last, self.last_step, self.sizes[step] = batch, step, size
        together = self.ranks.world > 1 and self.config.accumulation > 1  # micro-batches must be as many on every rank
        self.smallest = min(self.ranks.gather(size)) if together else size
        return batch

    def _begin(self, step: int) -> None:
        """Begin a pass, or go on with one, at `step`. What that draws is not to move what the batch draws."""
        self._seed("pass", step)
        self.iterator = iter(self.data)

    def _seed(self, *what: str | int) -> None:
        seed_streams_of_host(derive_seed(self.config.seed, "stream", self.ranks.rank, *what))

    def _take(self, step: int) -> object:
        """The next batch of this pass, or END."""
        self._seed(step)
        try:
            if self.share is None:
                return next(self.iterator, END)
            examples = list(islice(self.iterator, self.share))
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            raise RuntimeError(f"could not read batch {step + 1} of train_data: {told}") from error
        if not examples or (self.config.drop_last and len(examples) < self.share):
            return END
        try:
            return self.collate(examples)
        except Exception as error:
            advice = advice_on_stacking(examples[0], error) if self.collate is stack else ", in your collate"
            raise RuntimeError(
                f"could not make one batch of {len(examples)} examples, batch {step + 1} of train_data: "
                f"{type(error).__name__}: {error}{advice}"
            ) from error

    def _take_of_next_pass(self, step: int) -> object:
        self._begin(step)
        batch = self._take(step)
        if self.after_load and (batch is END or digest_of(batch) == self.after_load != self.first_digest):
            self._go_to(self.start)  # it begins every pass where it was once loaded, as datasets of Hugging Face do
            self._begin(step)
            batch = self._take(step)
        if batch is END:
            raise ValueError(
                f"train_data has ended after {step} of {self.config.steps} steps, and yields nothing when it is iterated "
                "again: begin a new pass in __iter__ (set the position back to 0 where one ends), or set "
                f"steps={step}"
            )
        if not (self.trying or self.said_end):
            here = f" on rank {self.ranks.rank}" if self.ranks.world > 1 else ""
            print(f"step {step + 1}: train_data has ended{here}, and begins again; of later ends nothing is said")
            self.said_end = True
        return batch

    def _require_batch(self, batch: object, step: int) -> None:
        """Raises ValueError unless it is a pair of trees whose tensors have as many examples, at least one."""
        shown = ""
        if not (isinstance(batch, tuple | list) and len(batch) == 2 and all(map(tensors, batch))):
            names = f" with {', '.join(map(str, batch))}" if isinstance(batch, dict) else ""
            shown = f" is a {type(batch).__name__}{names}"
        else:
            leaves = [pair for part, tree in zip("xy", batch, strict=True) for pair in named_leaves(tree, part)]
            others = [(place, leaf) for place, leaf in leaves if leaf is not None and not isinstance(leaf, Tensor)]
            if others:
                place, leaf = others[0]
                shown = f" has {shortened(leaf)} at {place}, of type {type(leaf).__name__}"
        if shown:
            raise ValueError(
                f"batch {step + 1} of train_data{shown}: it must be a pair (x, y) of tensors, or of dicts, lists and tuples "
                "of them. A loader makes it by its collate_fn"
            )
        sizes = {len(leaf) if leaf.dim() else 0 for leaf in tensors(batch)}
        if len(sizes) != 1 or sizes == {0}:
            shapes = ", ".join(str(tuple(leaf.shape)) for leaf in tensors(batch))
            raise ValueError(
                f"batch {step + 1} of train_data has shapes {shapes}: the first axis of each must count the examples, at "
                "least one"
            )

    # ---- its position ------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict:
        """The position of this rank: behind the batch that was read last. A copy.

        Raises ValueError if it cannot be saved.
        """
        try:
            with kept_streams():
                self._seed("position")  # a loader that has not begun does so when it is asked
                position = self.data.state_dict()
        except Exception as error:
            raise ValueError(
                f"train_data.state_dict() raises {type(error).__name__}: {error}. It is called without arguments, before "
                "the first batch and after any"
            ) from error
        file = io.BytesIO()
        try:
            torch.save(position, file)
            file.seek(0)
            return torch.load(file, weights_only=True)
        except Exception as error:
            raise ValueError(
                "the position that train_data.state_dict() returns cannot be kept in a checkpoint, which holds no code: "
                f"numbers, strings, tensors, and lists and dicts of these, can ({str(error).splitlines()[0]})"
            ) from error

    def load_state_dict(self, position: dict) -> None:
        self._go_to(position)
        self.after_load = True

    def _go_to(self, position: dict) -> None:
        self.iterator = None
        self.data.load_state_dict(copy.deepcopy(position))

    # ---- what the loop asks an order ---------------------------------------------------------------------------------

    def epoch(self, step: int) -> None:
        """None: a pass over a stream may end at another step on each rank."""

    def is_padding(self, step: int) -> bool:
        return False

    def smallest_share(self, step: int) -> int:
        """Examples of the rank that has the fewest at `step`, the one read last."""
        return self.smallest

    def smallest_micro_batch(self, steps: int, count: int) -> int:
        """Examples in the smallest micro-batch of this rank, of the first batch."""
        size = size_of(self.last)
        return size // min(count, size)

    def count(self, first: int, stop: int) -> int:
        """Examples in the batches of steps `first` … `stop` - 1, over all ranks; each can be counted once."""
        own = sum(self.sizes.pop(step, 0) for step in range(first, stop))
        return int(self.ranks.sum(torch.tensor(own)))


COUNTED = (
    """train_data=Positioned(begin), with
    from utils.data.positioned import Positioned""",
    """train_data=PositionedExamples(begin), with
    from utils.data.positioned import PositionedExamples""",
)
APART = (
    ": utils.distributed.ranks.current_ranks() says which this is",
    """. Every second, of two, say, with train_data=stream:
    from itertools import islice
    from utils.data.positioned import PositionedExamples
    from utils.distributed.ranks import current_ranks
    ranks = current_ranks()
    stream = PositionedExamples(lambda: islice(train_data, ranks.rank, None, ranks.world))""",
)


class FirstBatch(Dataset):
    """The examples of a stream's first batch, for what is tried before the first step."""

    pure = True

    def __init__(self, batch: list):
        self.whole = batch
        self.device = next((leaf.device for leaf in tensors(batch)), CPU)

    def __len__(self) -> int:
        return size_of(self.whole)

    def __getitem__(self, index: int) -> object:
        return self.batch(index)

    def batch(self, indices: Tensor | int) -> object:
        return rows(self.whole, indices)


def size_of(batch: object) -> int:
    """The number of its examples, which the first axis of each tensor counts."""
    return next((len(leaf) for leaf in tensors(batch) if leaf.dim()), 0)


def digest_of(batch: object) -> str:
    """Of all its tensors, bit for bit, and their places."""
    digest = hashlib.sha256()
    update_digest(digest, batch)
    return digest.hexdigest()
