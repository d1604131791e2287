"""A timeline of tensors that are born and freed, in bytes: the book that a prediction of memory is kept in."""

from contextlib import contextmanager

from utils.measure.memory import Phase, round_to_blocks

KINDS = ("parameters", "data", "gradients", "optimizer state", "activations", "temporaries")
MIB = 2**20  # bytes


class Storage:
    """`count` tensors of `nbytes` each in a Timeline.

    kind: one of KINDS; an activation is kept for backward. on_host: in the CPU's memory, also when training on a GPU.
    """

    def __init__(self, nbytes: int, kind: str, count: int = 1, on_host: bool = False):
        self.nbytes, self.kind, self.count, self.on_host = nbytes, kind, count, on_host


class Timeline:
    """Tensors born and freed, one after the other, and what that adds up to, in bytes.

    live, peak      alive now, and the most there were
    phases          {"forward 1": Phase(start, end, peak), ...}, as LiveBytes has them
    kinds           alive now, by kind: {"parameters": bytes, ...}
    kinds_at_peak   the same, when there were most
    history         (phase, kinds) after each birth: a stacked area to draw
    on_host         bytes that are not on the GPU, if there is one: AdamW's counts of steps
    blocks          (least, most) at the peak that CUDA's allocator can make of it: each tensor in whole blocks of 512;
                    above 1 MiB it may also get a block up to 1 MiB too large, as such a rest is not split off
    """

    def __init__(self):
        self.live = self.peak = 0
        self.phases: dict[str, Phase] = {}
        self.kinds = dict.fromkeys(KINDS, 0)
        self.kinds_at_peak = dict(self.kinds)
        self.history: list[tuple[str, dict[str, int]]] = []
        self.blocks, self.on_host = (0, 0), 0
        self._rounded = self._unsplit = 0
        self._phase, self._phase_peak = "", 0

    def new(self, nbytes: int, kind: str = "temporaries", count: int = 1, on_host: bool = False) -> Storage:
        """A tensor is born, or `count` of this size."""
        born = Storage(nbytes, kind, count, on_host)
        self._add(born, 1)
        if self.live > self.peak:
            self.peak, self.kinds_at_peak = self.live, dict(self.kinds)
        self._phase_peak = max(self._phase_peak, self.live)
        self.blocks = (max(self.blocks[0], self._rounded), max(self.blocks[1], self._rounded + self._unsplit))
        self.history.append((self._phase, dict(self.kinds)))
        return born

    def free(self, *storages: Storage) -> None:
        """Their last owner lets go of them."""
        for storage in storages:
            self._add(storage, -1)
            storage.kind = "freed"

    def drop(self, *storages: Storage) -> None:
        """Python's variable goes: tensors that autograd keeps live on."""
        self.free(*(storage for storage in storages if storage.kind != "activations"))

    def become(self, kind: str, storage: Storage) -> None:
        """A tensor is from now on of another kind."""
        self._add(storage, -1)
        storage.kind = kind
        self._add(storage, 1)

    def _add(self, storage: Storage, sign: int) -> None:
        count = sign * storage.count
        self.live += count * storage.nbytes
        self.kinds[storage.kind] += count * storage.nbytes
        if storage.on_host:
            self.on_host += count * storage.nbytes
        else:
            self._rounded += count * round_to_blocks(storage.nbytes)
            self._unsplit += count * MIB * (storage.nbytes > MIB)

    @contextmanager
    def phase(self, name: str):
        """As LiveBytes.phase, but one at a time."""
        start = self._phase_peak = self.live
        self._phase = name
        yield
        before = self.phases.get(name, Phase(start, 0, 0))
        self.phases[name] = Phase(before.start, self.live, max(before.peak, self._phase_peak))


class Gradients:
    """The .grad of each parameter in a Timeline."""

    def __init__(self, timeline: Timeline):
        self.timeline, self.kept = timeline, {}

    def arrive(self, **gradients: Storage) -> None:
        """A first gradient becomes .grad; a later one is added into it and freed."""
        for name, storage in gradients.items():
            if name in self.kept:
                self.timeline.free(storage)
            else:
                self.timeline.become("gradients", storage)
                self.kept[name] = storage

    def clear(self) -> None:
        """zero_grad(set_to_none=True)."""
        self.timeline.free(*self.kept.values())
        self.kept.clear()
