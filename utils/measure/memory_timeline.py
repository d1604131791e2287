"""A timeline of allocated and freed tensors, in bytes: the data structure of a memory prediction."""

from contextlib import contextmanager

from utils.measure.memory import Phase, round_to_blocks

KINDS = ("parameters", "data", "gradients", "optimizer state", "activations", "temporaries")
MIB = 2**20  # bytes


class Storage:
    """`count` tensors of `nbytes` each in a Timeline.

    kind: one of KINDS; an activation is saved for backward. on_host: in the CPU's memory even when training on a GPU.
    """

    def __init__(self, nbytes: int, kind: str, count: int = 1, on_host: bool = False):
        self.nbytes, self.kind, self.count, self.on_host = nbytes, kind, count, on_host


class Timeline:
    """Tensors allocated and freed, in order, and the resulting bytes.

    live, peak      live bytes now, and the most so far
    phases          {"forward 1": Phase(start, end, peak), ...}, as LiveBytes has them
    kinds           live bytes now, by kind: {"parameters": bytes, ...}
    kinds_at_peak   the same at the peak
    history         (phase, kinds) after each allocation: a stacked area to plot
    on_host         bytes that stay on the CPU when training on a GPU: AdamW's step counts
    blocks          (least, most) bytes that CUDA's allocator can hold at the peak: it rounds each tensor up to blocks of
                    512 bytes, and one above 1 MiB may get a block up to 1 MiB too large, as a smaller rest is not split off
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
        """Allocate a tensor, or `count` of this size."""
        storage = Storage(nbytes, kind, count, on_host)
        self._add(storage, 1)
        if self.live > self.peak:
            self.peak, self.kinds_at_peak = self.live, dict(self.kinds)
        self._phase_peak = max(self._phase_peak, self.live)
        self.blocks = (max(self.blocks[0], self._rounded), max(self.blocks[1], self._rounded + self._unsplit))
        self.history.append((self._phase, dict(self.kinds)))
        return storage

    def free(self, *storages: Storage) -> None:
        """The last references to these storages are gone."""
        for storage in storages:
            self._add(storage, -1)
            storage.kind = "freed"

    def drop(self, *storages: Storage) -> None:
        """A Python variable is gone. Activations stay, since autograd still holds them."""
        self.free(*(storage for storage in storages if storage.kind != "activations"))

    def become(self, kind: str, storage: Storage) -> None:
        """Change the kind of a storage."""
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
        """Like LiveBytes.phase, but phases must not nest."""
        start = self._phase_peak = self.live
        self._phase = name
        yield
        before = self.phases.get(name, Phase(start, 0, 0))
        self.phases[name] = Phase(before.start, self.live, max(before.peak, self._phase_peak))


class Gradients:
    """The .grad of each parameter in a Timeline."""

    def __init__(self, timeline: Timeline):
        self.timeline, self.by_name = timeline, {}

    def accumulate(self, **gradients: Storage) -> None:
        """The first gradient of a parameter becomes its .grad; a later one is added to that and freed."""
        for name, storage in gradients.items():
            if name in self.by_name:
                self.timeline.free(storage)
            else:
                self.timeline.become("gradients", storage)
                self.by_name[name] = storage

    def clear(self) -> None:
        """zero_grad(set_to_none=True)."""
        self.timeline.free(*self.by_name.values())
        self.by_name.clear()
