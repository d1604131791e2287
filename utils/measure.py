"""The instruments: bytes of tensors alive now and at most, counted from outside the code that is measured."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveBytes(TorchDispatchMode):
    """Bytes of the tensor storages that were created inside the block and are still alive.

    with LiveBytes() as memory: ...    then, inside or after the block,
    memory.live    bytes alive now
    memory.peak    the most there were after any operation (reset_peak() starts it afresh)
    memory.trace   bytes alive after each operation, in order: a list to draw

    A storage counts once, however many views share it, from the operation that returns it until its last
    owner lets go; storages that existed before the block never count. It asks the tensors, not an allocator,
    so meta tensors count as if they were real. It does not see scratch memory that an operation takes and
    gives back within itself, nor an allocator's rounding.
    """

    def __init__(self):
        super().__init__()
        self.live, self.peak, self.trace = 0, 0, []
        self._known: dict[int, int] = {}  # address of a living storage -> bytes counted for it (0: not ours)

    def reset_peak(self) -> None:
        """Forget the peak so far: it starts again at the bytes alive now."""
        self.peak = self.live

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        fresh = function is torch.ops.aten.lift_fresh.default  # torch.tensor(...) fills memory, then says so here
        self._meet((args, kwargs), ours=fresh)
        result = function(*args, **(kwargs or {}))
        self._meet(result, ours=True)
        self.peak = max(self.peak, self.live)
        self.trace.append(self.live)
        return result

    def _meet(self, tree, ours: bool) -> None:
        """Enter every storage in `tree` that is new to the book, and have it leave when it dies."""
        for leaf in tree_leaves(tree):
            if not isinstance(leaf, torch.Tensor):
                continue
            storage = leaf.untyped_storage()
            if storage._cdata in self._known:
                continue
            size = storage.nbytes() if ours else 0
            self._known[storage._cdata] = size
            self.live += size
            weakref.finalize(storage, self._leave, storage._cdata)

    def _leave(self, address: int) -> None:
        self.live -= self._known.pop(address)
