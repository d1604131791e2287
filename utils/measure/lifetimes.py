"""When each tensor storage was born and when it died, to draw what fills memory at each moment of a step."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from utils.measure.memory import LiveBytes


@dataclass
class Life:
    """A storage. born: how many were born before it. died: how many had been when it was gone; infinity while it lives."""

    nbytes: int
    born: int
    died: float = math.inf


class Lifetimes(LiveBytes):
    """LiveBytes that also knows when each storage was born, and when it died.

    with Lifetimes() as memory: ...    then, beside what LiveBytes has,
    memory.lives         a Life of each storage that has bytes, in order of birth
    memory.operations    the operation that returned it, of each: "aten.mm"
    memory.now           how many have been born
    """

    def __init__(self):
        super().__init__()
        self.lives: list[Life] = []
        self.operations: list[str] = []
        self._operation = ""
        self._alive: dict[int, Life] = {}  # by address

    @property
    def now(self) -> int:
        return len(self.lives)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self._operation = str(function._overloadpacket)
        return super().__torch_dispatch__(function, types, args, kwargs)

    def _remember(self, address: int, nbytes: int) -> None:
        super()._remember(address, nbytes)
        if nbytes:
            self._alive[address] = Life(nbytes, self.now)
            self.lives.append(self._alive[address])
            self.operations.append(self._operation)

    def _forget(self, address: int) -> None:
        super()._forget(address)
        if life := self._alive.pop(address, None):
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
