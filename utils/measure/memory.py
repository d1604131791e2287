"""Bytes of live tensors, bytes saved for backward, and bytes of an allocator, measured without changes to the code."""

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
    """Live bytes at the start and at the end of a phase, and the most in between."""

    start: int
    end: int
    peak: int


class LiveBytes(TorchDispatchMode):
    """Bytes of the tensor storages that were created inside the block and are still alive.

    with LiveBytes() as memory: ...    then, inside or after the block,
    memory.live    live bytes now
    memory.peak    the most live bytes after any operation so far (reset_peak() resets it)
    memory.trace   live bytes after each operation, in order: a list to plot
    memory.phases  {name: Phase(start, end, peak)} of each `with memory.phase(name):` inside the block

    A storage counts once, however many views share it, from the operation that returns it until its last reference is
    gone; storages that existed before the block never count. Sizes come from the tensors, not from an allocator, so meta
    tensors count as if they were real. Not counted: what a storage grows by later (resize_, out= of an empty tensor),
    scratch memory that an operation allocates and frees, an allocator's rounding, and memory that no operation returns,
    such as the 8 bytes of a Python number that autograd keeps or the random state that torch.utils.checkpoint keeps.
    Measuring changes one thing: where autograd sums two gradients of one tensor, it normally adds the second into the
    first in place if it holds the only reference; under LiveBytes it allocates a third. The values are the same.
    """

    def __init__(self):
        super().__init__()
        self.live, self.peak, self.trace = 0, 0, []
        self.phases: dict[str, Phase] = {}
        self._known: dict[int, int] = {}  # address of a live storage -> bytes counted for it (0: older than the block)

    def reset_peak(self) -> None:
        """Set the peak to the bytes alive now."""
        self.peak = self.live

    @contextmanager
    def phase(self, name: str):
        """Record the `with` block's bytes in `phases` under `name`. Phases may nest.

        A name used again (the forward of each micro-batch) keeps its first start, its last end and its highest
        peak.
        """
        start, operations = self.live, len(self.trace)
        try:
            yield
        finally:
            now = Phase(start, self.live, max([start, *self.trace[operations:]]))
            before = self.phases.get(name, now)
            self.phases[name] = Phase(before.start, now.end, max(before.peak, now.peak))

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        created = function is torch.ops.aten.lift_fresh.default  # torch.tensor(...) passes its new tensor to this
        self._register((args, kwargs), counted=created)
        result = function(*args, **(kwargs or {}))
        self._register(result, counted=True)
        self.peak = max(self.peak, self.live)
        self.trace.append(self.live)
        return result

    def _register(self, tree, counted: bool) -> None:
        """Register every new storage in `tree`, until it is freed. Its bytes are live bytes only if `counted`."""
        for leaf in tree_leaves(tree):
            if not isinstance(leaf, torch.Tensor):
                continue
            storage = leaf.untyped_storage()
            if storage._cdata in self._known:
                continue
            self._remember(storage._cdata, storage.nbytes() if counted else 0)
            weakref.finalize(storage, self._forget, storage._cdata)

    def _remember(self, address: int, nbytes: int) -> None:
        """A storage is born, or, with 0 bytes, is older than the block."""
        self._known[address] = nbytes
        self.live += nbytes

    def _forget(self, address: int) -> None:
        """The storage at this address is gone."""
        self.live -= self._known.pop(address)


# ---- bytes saved for backward ----------------------------------------------------------------------------------------


class Saved(NamedTuple):
    """What autograd saves. activations, parameters: bytes; tensors: (shape, dtype, bytes) of each activation."""

    activations: int
    parameters: int
    tensors: list[tuple[tuple[int, ...], torch.dtype, int]]


def saved_bytes(function: Callable, *args, parameters: Iterable[Tensor] = (), **kwargs) -> Saved:
    """The bytes that autograd saves for backward while `function(*args, **kwargs)` runs.

    parameters: tensors that exist anyway (`model.parameters()`); they and their views are counted separately. Each
    storage counts once, with all its bytes, even if only a slice was saved; inputs count if they are saved. Not seen:
    attributes that a custom autograd.Function sets on its context, and tensors that other saved-tensor hooks take
    (those of torch.utils.checkpoint).
    """
    parameters = list(parameters)
    if wrong_types := [type(each).__name__ for each in parameters if not isinstance(each, Tensor)]:
        raise TypeError(f"parameters must be tensors, not {wrong_types[0]}: pass model.parameters()")
    parameter_storages = {parameter.untyped_storage()._cdata for parameter in parameters}
    saved: dict[int, tuple] = {}  # address -> (storage, shape, dtype); holding the storage keeps its address unique

    def pack(tensor: Tensor) -> tuple[Tensor, int]:
        storage = tensor.untyped_storage()
        saved.setdefault(storage._cdata, (storage, tuple(tensor.shape), tensor.dtype))
        # The tensor itself would own the graph that owns it: a cycle that is never freed.
        return tensor.detach(), tensor._version

    def unpack(packed: tuple[Tensor, int]) -> Tensor:
        tensor, version = packed
        if tensor._version != version:  # which autograd does not check where hooks are set
            raise RuntimeError(f"a tensor {tuple(tensor.shape)} that backward needs was changed in place")
        return tensor

    with saved_tensors_hooks(pack, unpack):
        function(*args, **kwargs)
    tensors = [
        (shape, dtype, storage.nbytes())
        for address, (storage, shape, dtype) in saved.items()
        if address not in parameter_storages
    ]
    references = [storage.nbytes() for address, (storage, _, _) in saved.items() if address in parameter_storages]
    return Saved(sum(size for _, _, size in tensors), sum(references), tensors)


# ---- bytes of CUDA's allocator ---------------------------------------------------------------------------------------


def round_to_blocks(nbytes: int, block: int = 512) -> int:
    """The bytes that CUDA's allocator allocates for a tensor of `nbytes`: the next multiple of `block`."""
    if nbytes < 0 or block < 1:
        raise ValueError(f"no {nbytes} bytes fit into blocks of {block}: bytes are at least 0, a block at least 1")
    return -(-nbytes // block) * block


class AllocatorBytes:
    """Bytes that CUDA's allocator has allocated inside the block, beyond those allocated before it.

    with AllocatorBytes() as memory: ...    then, after the block,
    memory.end, memory.peak                        in whole blocks: each tensor rounded up (round_to_blocks);
                                                   above 1 MiB a block may be up to 1 MiB larger than that
    memory.requested_end, memory.requested_peak    in requested bytes, before any rounding

    The requested bytes are LiveBytes' plus those of libraries: cuBLAS allocates a workspace at the first matmul
    (8,519,680 bytes, on Hopper and Blackwell 32 MiB, or what CUBLAS_WORKSPACE_CONFIG says) and keeps it; operations
    allocate scratch memory and free it. Entering resets the device's peak: blocks must not nest, ScratchBytes counts as
    one. If the code has run once before, only the scratch memory is new. device: any accelerator whose allocator torch
    can read, by default this machine's. RuntimeError if there is none, ValueError for one that is missing or cannot be
    read. `allocator` is for tests: a replacement for torch.cuda.
    """

    def __init__(self, device: torch.device | str | None = None, allocator: object = None):
        self._device = device or (accelerator() if allocator is None else "cuda")
        if self._device is None:
            raise RuntimeError("AllocatorBytes reads a GPU's allocator, but there is no GPU here: use LiveBytes")
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

        def increase(what: str, when: str) -> int:
            return after[f"{what}.all.{when}"] - self._before[f"{what}.all.current"]

        self.end, self.peak = increase("allocated_bytes", "current"), increase("allocated_bytes", "peak")
        self.requested_end = increase("requested_bytes", "current")
        self.requested_peak = increase("requested_bytes", "peak")


def _allocator_of(device: torch.device) -> ModuleType:
    """The module with memory statistics of `device`: torch.cuda for "cuda", torch.xpu for "xpu"."""
    if not is_accelerator(device):
        raise ValueError(f"device {str(device)!r} has no allocator that keeps statistics: use LiveBytes")
    module = torch.get_device_module(device)
    if not hasattr(module, "memory_stats"):
        raise ValueError(f"torch.{device.type} has no statistics of its allocator (no memory_stats): use LiveBytes")
    return module


class ScratchBytes(TorchDispatchMode):
    """Bytes that single operations allocate on a GPU and free before they return, so that no tensor shows them.

    with ScratchBytes() as operations: ...    then operations.bytes is {"aten.mm": the most of any call, ...}
    Slow: it waits for the GPU around each operation. device, allocator, errors: as in AllocatorBytes.
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
