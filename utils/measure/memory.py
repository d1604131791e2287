"""Bytes: alive, kept for backward, and in an allocator; all read from outside the code they measure."""

import weakref
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from utils.device import accelerator, is_accelerator

# ---- bytes alive -----------------------------------------------------------------------------------------------------


class Phase(NamedTuple):
    """Bytes alive when a stretch of a block began and when it ended, and the most there were in between."""

    start: int
    end: int
    peak: int


class LiveBytes(TorchDispatchMode):
    """Bytes of the tensor storages that were created inside the block and are still alive.

    with LiveBytes() as memory: ...    then, inside or after the block,
    memory.live    bytes alive now
    memory.peak    the most there were after any operation (reset_peak() starts it afresh)
    memory.trace   bytes alive after each operation, in order: a list to draw
    memory.phases  {name: Phase(start, end, peak)} of each `with memory.phase(name):` inside the block

    A storage counts once, however many views share it, from the operation that returns it until its last
    owner lets go; storages that existed before the block never count. It asks the tensors, not an allocator,
    so meta tensors count as if they were real. It does not see scratch memory that an operation takes and
    gives back within itself, nor an allocator's rounding, nor what never passes an operation: the 8 bytes of a
    Python number that autograd keeps, the state of the random stream that torch.utils.checkpoint keeps.
    Being watched changes one thing: where autograd adds two gradients of one tensor, it adds the second into
    the first in place if nobody else holds that; here it makes a third. The values are the same.
    """

    def __init__(self):
        super().__init__()
        self.live, self.peak, self.trace = 0, 0, []
        self.phases: dict[str, Phase] = {}
        self._known: dict[int, int] = {}  # address of a living storage -> bytes counted for it (0: not ours)

    def reset_peak(self) -> None:
        """Forget the peak so far: it starts again at the bytes alive now."""
        self.peak = self.live

    @contextmanager
    def phase(self, name: str):
        """Enter the `with` block's bytes in `phases` as `name`. Phases may nest.

        A name that comes back (the forward of each micro-batch) keeps its first start, its last end and its
        highest peak.
        """
        start, operations = self.live, len(self.trace)
        try:
            yield
        finally:
            now = Phase(start, self.live, max([start, *self.trace[operations:]]))
            before = self.phases.get(name, now)
            self.phases[name] = Phase(before.start, now.end, max(before.peak, now.peak))

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


# ---- bytes kept for backward -----------------------------------------------------------------------------------------


class Saved(NamedTuple):
    """What autograd keeps. activations, parameters: bytes; tensors: (shape, dtype, bytes) of each activation."""

    activations: int
    parameters: int
    tensors: list[tuple[tuple[int, ...], torch.dtype, int]]


def saved_bytes(function: Callable, *args, parameters: Iterable[Tensor] = (), **kwargs) -> Saved:
    """The bytes that autograd saves for backward while `function(*args, **kwargs)` runs.

    parameters: tensors whose storages are references to what exists anyway (`model.parameters()`); they, and
    views of them, count apart. Each storage counts once, with all its bytes, even if only a slice was saved;
    inputs count, if they are saved. What a custom autograd.Function keeps as plain attributes of its context,
    and what hooks of the function's own swallow (as those of torch.utils.checkpoint), is not seen.
    """
    parameters = list(parameters)
    if strange := [type(each).__name__ for each in parameters if not isinstance(each, Tensor)]:
        raise TypeError(f"parameters are tensors, not {strange[0]}: give model.parameters()")
    ours = {parameter.untyped_storage()._cdata for parameter in parameters}
    kept: dict[int, tuple] = {}  # address -> (storage, shape, dtype); the storage, so that no address is used twice

    def pack(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept.setdefault(storage._cdata, (storage, tuple(tensor.shape), tensor.dtype))
        return tensor.detach()  # the tensor itself would own the graph that owns it: a cycle that nobody frees

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        function(*args, **kwargs)
    tensors = [
        (shape, dtype, storage.nbytes()) for address, (storage, shape, dtype) in kept.items() if address not in ours
    ]
    references = [storage.nbytes() for address, (storage, _, _) in kept.items() if address in ours]
    return Saved(sum(size for _, _, size in tensors), sum(references), tensors)


# ---- bytes of CUDA's allocator ---------------------------------------------------------------------------------------


def round_to_blocks(nbytes: int, block: int = 512) -> int:
    """The bytes that CUDA's allocator sets aside for a tensor of `nbytes`: the next multiple of `block`."""
    if nbytes < 0 or block < 1:
        raise ValueError(f"no {nbytes} bytes fit into blocks of {block}: bytes are at least 0, a block at least 1")
    return -(-nbytes // block) * block


class AllocatorBytes:
    """What CUDA's allocator handed out inside the block, in bytes beyond what was there before it.

    with AllocatorBytes() as memory: ...    then, after the block,
    memory.end, memory.peak                        in whole blocks: each tensor rounded up (round_to_blocks);
                                                   above 1 MiB a block may be up to 1 MiB larger than that
    memory.requested_end, memory.requested_peak    in bytes as asked for, before any rounding

    The requested bytes are LiveBytes' plus those that libraries ask for: cuBLAS takes a workspace at the
    first matmul (8,519,680 bytes, on Hopper 32 MiB, or what CUBLAS_WORKSPACE_CONFIG says) and keeps it, and
    operations take scratch memory and give it back. Run the code once before, then only the latter is new.
    device: any accelerator whose allocator torch can read, unless given the one that is here. RuntimeError where there
    is none, ValueError for one that is not here or cannot be read. `allocator` is for tests: a stand-in for torch.cuda.
    """

    def __init__(self, device: torch.device | str | None = None, allocator: object = None):
        self._device = device or (accelerator() if allocator is None else "cuda")
        if self._device is None:
            raise RuntimeError("AllocatorBytes reads a GPU's allocator and there is no GPU here: use LiveBytes")
        self._allocator = allocator or _allocator_of(torch.device(self._device))
        self.end = self.peak = self.requested_end = self.requested_peak = 0

    def __enter__(self) -> "AllocatorBytes":
        self._allocator.synchronize(self._device)
        self._allocator.reset_peak_memory_stats(self._device)
        self._before = self._allocator.memory_stats(self._device)
        return self

    def __exit__(self, *error) -> None:
        self._allocator.synchronize(self._device)
        after = self._allocator.memory_stats(self._device)

        def grown(what: str, when: str) -> int:
            return after[f"{what}.all.{when}"] - self._before[f"{what}.all.current"]

        self.end, self.peak = grown("allocated_bytes", "current"), grown("allocated_bytes", "peak")
        self.requested_end = grown("requested_bytes", "current")
        self.requested_peak = grown("requested_bytes", "peak")


def _allocator_of(device: torch.device) -> ModuleType:
    """torch.cuda for "cuda", torch.xpu for "xpu": what can be asked of the memory of `device`."""
    if not is_accelerator(device):
        raise ValueError(f"device {str(device)!r} has no allocator that keeps statistics: use LiveBytes")
    module = torch.get_device_module(device)
    if not hasattr(module, "memory_stats"):
        raise ValueError(f"torch.{device.type} tells nothing of its allocator (no memory_stats): use LiveBytes")
    return module


class ScratchBytes(TorchDispatchMode):
    """What single operations take from a GPU's allocator and give back before they are done, which no tensor shows.

    with ScratchBytes() as operations: ...    then operations.bytes is {"aten.mm": the most of any call, ...}
    Slow: it waits for the GPU around each operation. device, allocator, errors: as of AllocatorBytes.
    """

    def __init__(self, device: torch.device | str | None = None, allocator: object = None):
        super().__init__()
        self.bytes: dict[str, int] = {}
        self._reader = AllocatorBytes(device, allocator)

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        with self._reader as operation:
            result = function(*args, **(kwargs or {}))
        name, scratch = str(function._overloadpacket), operation.peak - max(operation.end, 0)
        self.bytes[name] = max(self.bytes.get(name, 0), scratch)
        return result
