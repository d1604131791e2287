"""An order of the caller's own: a function from the step to the indices of its batch.

A sampler, a curriculum or batches of like lengths are such functions. What makes a run resume is that they are pure.
"""

import hashlib
import math
from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np
import torch
from torch.utils.data import Sampler, WeightedRandomSampler

from utils.data.order import CPU, Shares, derive_seed, kept_streams, seed_streams_of_host
from utils.device import copies_from_pinned

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.uint32, torch.uint64)
LOOKED_AT = (0, 1, 2, 10, 100, 1_000, 10_000, 100_000)  # steps at which it is tried before the first
SIZES = 1 << 16  # batches whose sizes are remembered


class OwnOrder(Shares):
    """An order of the caller's own: `function(step)` → the indices of that step's whole batch, on all ranks together.

    It must be a pure function of the step: nothing is saved but the number of the step, and any step may be asked for. The
    global streams of torch, NumPy and Python are seeded for (seed, step) before each call, and put back afterwards, so
    that drawing from them is pure. Batches may differ in size. There are no epochs.

    steps: the number that will be made. ahead: batches that workers load ahead. sizes, digests: the sizes of the batches of
    the steps at which it was tried, and {step: a digest of its batch}.

    Raises ValueError, at once for some steps and later for any, unless it returns indices of `examples`: a list or a tensor
    of integers, one axis, at least one; and if it answers the same step in two ways.
    """

    pad = True

    def __init__(
        self,
        function: Callable[[int], list[int] | torch.Tensor],
        examples: int,
        steps: int,
        seed: int = 0,
        *,
        rank: int = 0,
        world: int = 1,
        device: torch.device = CPU,
        ahead: int = 0,
    ):
        if examples < 1:
            raise ValueError("the dataset is empty: nothing to train or evaluate on")
        if not callable(function):
            raise ValueError(not_a_function(function))
        self.function, self.examples, self.seed = function, examples, seed
        self.rank, self.world, self.device = rank, world, device
        self.batch = lru_cache(maxsize=ahead + 2)(self._batch)
        self.size = lru_cache(maxsize=SIZES)(lambda step: len(self.batch(step)))
        first = {step: self._ask(step) for step in LOOKED_AT[::-1] if step < steps}
        for step in reversed(first):  # the other way round: a counter or an iterator answers differently
            self._require_same(step, first[step], self._ask(step))
        self.sizes = {len(indices) for indices in first.values()}
        self.digests = {step: _digest(indices) for step, indices in first.items()}

    def epoch(self, step: int) -> None:
        """None: nothing says when every example has been visited."""

    def next_epoch(self, step: int) -> float:
        return math.inf

    def occasions(self, step: int) -> list[int | str]:
        """The step, and the place in the whole batch: an example that stands in it twice draws twice."""
        return [f"step {step + 1}, place {place}" for place in self.places(step)]

    def smallest_micro_batch(self, steps: int, count: int) -> int:
        """Examples in the smallest micro-batch of one rank, among the steps that were looked at."""
        share = max(1, min(self.sizes) // self.world)
        return share // min(count, share)

    def require_pure(self, step: int) -> None:
        """Raises ValueError if the function no longer gives what it gave for `step`."""
        self._require_same(step, self.batch(step).cpu(), self._ask(step))

    @staticmethod
    def _require_same(step: int, before: torch.Tensor, now: torch.Tensor) -> None:
        if not torch.equal(before, now):
            raise ValueError(
                f"order({step}) gave {before[:4].tolist()} … ({len(before)} in all), and then {now[:4].tolist()} … "
                f"({len(now)} in all): it must be a pure function of the step, which is all that a resumed run knows{PURE}"
            )

    def _batch(self, step: int) -> torch.Tensor:
        indices = self._ask(step)
        if copies_from_pinned(self.device):
            return indices.pin_memory().to(self.device, non_blocking=True)
        return indices.to(self.device)

    def _ask(self, step: int) -> torch.Tensor:
        try:
            with kept_streams():
                seed_streams_of_host(derive_seed(self.seed, "own order", step))
                given = self.function(step)
            indices = given.cpu() if isinstance(given, torch.Tensor) else torch.from_numpy(np.asarray(given).copy())
        except Exception as error:
            raise ValueError(
                f"order({step}) gives no indices of a batch ({type(error).__name__}: {error}): it is called with the number "
                "of the step, from 0, and returns a list or a tensor of integers"
            ) from error
        if indices.dim() != 1 or indices.dtype not in INTEGERS or not len(indices):
            mask = "; mask.nonzero().flatten() makes indices of a mask" * (indices.dtype == torch.bool)
            raise ValueError(
                f"order({step}) gives shape {tuple(indices.shape)} and {indices.dtype}: it must give the indices of that "
                f"step's batch, a list or a tensor of integers with one axis, at least one{mask}"
            )
        indices = indices.long().clone()  # the function may write to its own again
        least, largest = int(indices.min()), int(indices.max())
        if least < 0 or largest >= self.examples:
            raise ValueError(
                f"order({step}) gives index {least if least < 0 else largest}: the data have {self.examples} examples, "
                f"0 to {self.examples - 1}"
            )
        return indices


PURE = """. Draw from the streams of torch, NumPy or Python, which are seeded for each step before it is called, or from a
generator made in it:
    def order(step):
        generator = torch.Generator().manual_seed(step)
        return torch.randint(len(data), (64,), generator=generator)
    train(model, data, config=config, order=order)
A batch sampler of torch becomes such a function by order_of(sampler, config.seed), of utils.data.own_order"""


def not_a_function(order: object) -> str:
    """What to say of an order that cannot be called: the line that makes a function of it."""
    if isinstance(order, WeightedRandomSampler) and order.replacement:
        return (
            "order is a WeightedRandomSampler: pass a function of the step. Its draws are seeded for each step:\n"
            "    batch_size = 64\n"
            "    def weighted(step):\n"
            "        return torch.multinomial(order.weights, batch_size, replacement=True)\n"
            "    train(model, data, config=config, order=weighted)"
        )
    if isinstance(order, Sampler):
        batches_of = "order"
        if not isinstance(next(iter(order), None), list | tuple):
            batches_of = "torch.utils.data.BatchSampler(order, config.batch_size, config.drop_last)"
        return (
            f"order is a {type(order).__name__}: pass a function of the step, which is made of its batches by\n"
            "    from dataclasses import replace\n"
            "    from utils.data.own_order import order_of\n"
            f"    function = order_of({batches_of}, config.seed)\n"
            "    train(model, data, config=replace(config, drop_last=False), order=function)"
        )
    return (
        f"order is a {type(order).__name__}: pass a function from the step, counted from 0, to the indices of its batch. Of "
        "a list of batches:\n"
        "    batches = list(order)\n"
        "    train(model, data, config=config, order=lambda step: batches[step % len(batches)])"
    )


def order_of(batch_sampler: Iterable[list[int]], seed: int) -> Callable[[int], torch.Tensor]:
    """A function for `train(order=…)`, step → indices (B,), of what yields lists of indices, as torch's batch samplers do.

    A pass over it is listed whole, with the global streams seeded for (seed, pass), and its own torch generator if it has
    one; set_epoch(pass) is called if there is one. So any step can be asked for.

    Raises ValueError if two passes with the same seed differ, or if a pass has another number of batches than the first.
    """

    @lru_cache(maxsize=2)  # the loader may be in the next pass already
    def batches_of(epoch: int) -> list[torch.Tensor]:
        return _pass_over(batch_sampler, seed, epoch)

    first = batches_of(0)
    name, again = type(batch_sampler).__name__, _pass_over(batch_sampler, seed, 0)
    if not first:
        raise ValueError(f"{name} yields no batch: nothing to train on")
    if len(first) != len(again) or not all(map(torch.equal, first, again)):
        raise ValueError(
            f"two passes over {name} with the same seed differ: it draws from a stream of its own. Have it draw from the "
            "global streams of torch, NumPy or Python, or write a function of the step yourself"
        )

    def order(step: int) -> torch.Tensor:
        epoch, batch = divmod(step, len(first))
        batches = batches_of(epoch)
        if len(batches) != len(first):
            raise ValueError(
                f"pass {epoch} over {name} has {len(batches)} batches, the first had {len(first)}: they must be as many in "
                "each, so that a step says in which pass it is"
            )
        return batches[batch]

    return order


def _pass_over(batch_sampler: Iterable[list[int]], seed: int, epoch: int) -> list[torch.Tensor]:
    of_pass = derive_seed(seed, "pass", epoch)
    for part in (batch_sampler, getattr(batch_sampler, "sampler", None)):
        if isinstance(getattr(part, "generator", None), torch.Generator):
            part.generator.manual_seed(of_pass)
        if hasattr(part, "set_epoch"):
            part.set_epoch(epoch)
    with kept_streams():
        seed_streams_of_host(of_pass)
        return [torch.as_tensor(batch) for batch in batch_sampler]


def _digest(indices: torch.Tensor) -> str:
    return hashlib.sha256(indices.numpy().tobytes()).hexdigest()[:16]
