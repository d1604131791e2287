"""When each tensor storage was born and when it died, to draw what fills memory at each moment of a step."""

import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass
class Life:
    """A storage. born: how many were born before it. died: how many had been when it was gone; infinity while it lives."""

    nbytes: int
    born: int
    died: float = math.inf


class Lifetimes(TorchDispatchMode):
    """The lives of the tensor storages that are created inside the block.

    with Lifetimes() as memory: ...    then
    memory.lives         a Life of each storage, in order of birth
    memory.operations    the operation that returned it, of each: "aten.mm"
    memory.now           how many have been born

    What counts as a storage, and what does not, is as in LiveBytes.
    """

    def __init__(self):
        super().__init__()
        self.lives: list[Life] = []
        self.operations: list[str] = []
        self._known: dict[int, Life | None] = {}  # by address; None for one that is older than the block

    @property
    def now(self) -> int:
        return len(self.lives)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        created = function is torch.ops.aten.lift_fresh.default  # torch.tensor(...) passes its new tensor to this
        self._meet((args, kwargs), function, born=created)
        result = function(*args, **(kwargs or {}))
        self._meet(result, function, born=True)
        return result

    def _meet(self, tree, function, born: bool) -> None:
        for leaf in tree_leaves(tree):
            if not isinstance(leaf, torch.Tensor) or (storage := leaf.untyped_storage())._cdata in self._known:
                continue
            life = Life(storage.nbytes(), self.now) if born else None
            if life:
                self.lives.append(life)
                self.operations.append(str(function._overloadpacket))
            self._known[storage._cdata] = life
            weakref.finalize(storage, self._bury, storage._cdata)

    def _bury(self, address: int) -> None:
        if life := self._known.pop(address):
            life.died = self.now


KINDS = ("weights", "the optimizer's state", "kept by the layers", "the loss", "gradients", "for a moment")


def bytes_by_kind(memory: Lifetimes, steps: Sequence[dict[str, int]], large: int) -> list[dict[str, list[int]]]:
    """Of each step {kind: bytes alive after each birth}. A storage's kind is told by when it was born and when it died.

    steps: {"forward": .., "backward": .., "update": .., "end": ..}, `memory.now` where each of them begins; what was born
    before the first is the weights. large: bytes from which a tensor of forward or backward belongs to the loss, those of
    the logits. Raises ValueError if the phases of the steps do not follow each other.
    """
    marks = [step[phase] for step in steps for phase in ("forward", "backward", "update", "end")]
    if marks != sorted(marks):
        raise ValueError(f"phases begin at {marks}: give them in order, one step after the other")
    found = []
    for step in steps:
        first, end = step["forward"], step["end"]
        changes = {kind: [0] * (end - first + 1) for kind in KINDS}
        for life in memory.lives[:end]:
            if life.died > first:
                change = changes[_kind(life, steps[0]["forward"], step, large)]
                change[max(life.born - first, 0)] += life.nbytes
                if life.died < end:
                    change[int(life.died) - first] -= life.nbytes
        found.append({kind: list(accumulate(change))[: end - first] for kind, change in changes.items()})
    return found


def _kind(life: Life, training_begins: int, step: dict[str, int], large: int) -> str:
    """What a storage is for in a step."""
    if life.born < step["forward"]:
        return "weights" if life.born < training_begins else "the optimizer's state"
    if life.born >= step["update"]:
        return "the optimizer's state" if life.died > step["end"] else "for a moment"
    if life.nbytes >= large:
        return "the loss"
    if life.born < step["backward"]:
        return "kept by the layers" if life.died > step["backward"] else "for a moment"
    return "gradients" if life.died > step["update"] else "for a moment"
