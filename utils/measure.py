"""The instruments: bytes alive, bytes kept for backward, FLOPs, seconds; all read from outside the code they measure."""

import re
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from math import prod
from statistics import median
from types import ModuleType
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, flop_registry

from utils.device import accelerator, is_accelerator, pick_device, synchronize

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


# ---- FLOPs -----------------------------------------------------------------------------------------------------------


def attention_flops(query: tuple, key: tuple, value: tuple) -> int:
    """FLOPs of softmax(QKᵀ)V, the full square: 4·B·H·T²·d where keys and values are as long and wide as queries.

    Shapes (..., H, T, d), (..., K, S, d), (..., K, S, e). Each of the H query heads reads all S keys, also
    where K < H heads share them (grouped queries), and also the keys that a causal mask hides.
    """
    *heads, T, d = query
    S, e = value[-2:]
    return 2 * prod(heads) * T * S * (d + e)


def attention_formulas(recomputing: bool = False) -> dict:
    """FLOP formulas for every fused attention kernel of this torch, for FlopCounterMode(custom_mapping=...).

    The backward counts as the four matmuls that attention's gradient needs: twice the forward, 8·B·H·T²·d,
    what attention written out costs too. These are model FLOPs, what MFU is made of. recomputing=True adds the
    fifth matmul that the kernels do, QKᵀ once more: 10·B·H·T²·d, hardware FLOPs, what HFU is made of and what
    torch's own counter says of the kernels that it knows.
    """

    def forward_flops(query, key, value, *args, out_shape=None, **kwargs) -> int:
        return attention_flops(query, key, value)

    def backward_flops(grad_out, query, key, value, *args, out_shape=None, **kwargs) -> int:
        scores_again = attention_flops(query, key, (*value[:-1], 0)) if recomputing else 0
        return 2 * attention_flops(query, key, value) + scores_again

    formulas = {}
    for kind in ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention"):
        formulas[getattr(torch.ops.aten, f"_scaled_dot_product_{kind}")] = forward_flops
        formulas[getattr(torch.ops.aten, f"_scaled_dot_product_{kind}_backward")] = backward_flops
    return formulas


FUSED_ATTENTION = attention_formulas()


def flops_by_operation(function: Callable, *args, formulas: dict | None = None, **kwargs) -> dict[str, int]:
    """{"aten.mm": FLOPs, ...} of everything that `function(*args, **kwargs)` runs, also a backward inside it.

    formulas: {torch.ops.aten.mv: f, ...} besides those of torch's counter, each f(*shapes, out_shape=...);
    FUSED_ATTENTION unless given, which makes one total on cpu, meta and cuda; {} is torch's counter bare.
    It counts what multiplies and sums (2 a multiply-add) and nothing elementwise; uncounted_operations lists
    what it ought to know and does not.
    """
    counter = FlopCounterMode(display=False, custom_mapping=FUSED_ATTENTION if formulas is None else formulas)
    with counter:
        function(*args, **kwargs)
    return {str(operation): flops for operation, flops in counter.get_flop_counts().get("Global", {}).items()}


def count_flops(function: Callable, *args, formulas: dict | None = None, **kwargs) -> int:
    """The total of flops_by_operation, which see."""
    return sum(flops_by_operation(function, *args, formulas=formulas, **kwargs).values())


# The names of operations that sum products over an index, word by word, and those that merely sound so.
CONTRACTION = re.compile(
    r"""\w*(mm|mv|dot) | matmul | gemm | linear | bilinear | trilinear | einsum | attention | transformer
    | rnn | lstm | gru | conv([123]d)? | convolution | fft | cdist | euclidean
    | linalg | cholesky | inverse | solve | det | slogdet | svd | eigh | eigvals | lu | qr | geqrf | ormqr | orgqr""",
    re.VERBOSE,
)
NO_CONTRACTION = ("linalg_vector_norm", "linalg_cross", "linalg_diagonal", "_linalg_check_errors", "_thnn_fused")
KNOWN_NAMESPACES = ("aten", "prim", "prims", "profiler")


def _may_contract(operation) -> bool:
    """Whether an operation's name says that it sums products, or says nothing because it is not torch's own."""
    namespace, name = operation.name().split("::")
    if namespace not in KNOWN_NAMESPACES:
        return True
    words = name.split(".")[0].strip("_").split("_")
    return any(map(CONTRACTION.fullmatch, words)) and not name.startswith(NO_CONTRACTION)


class _Audit(TorchDispatchMode):
    """Counts the calls of operations that may contract and are not in `known`."""

    def __init__(self, known: dict):
        super().__init__()
        self.known, self.calls = known, Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        packet = function._overloadpacket
        if packet not in self.known:
            with self:  # as torch's counter does: an operation made of others is judged by those
                result = function.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
            self.calls[str(packet)] += _may_contract(function)
        return function(*args, **kwargs)


def uncounted_operations(function: Callable, *args, formulas: dict | None = None, **kwargs) -> dict[str, int]:
    """{"aten.mv": calls, ...}: operations that sum products and that flops_by_operation counts as nothing.

    Empty: the count is whole. Names are what it goes by (CONTRACTION), and it lists every operation outside
    torch's own namespaces that has no formula, since nobody can know what is in those. Sums of products
    spelled out of elementwise operations, (a * b).sum(), look like what they are and are not listed.
    formulas: as in flops_by_operation; {} audits torch's counter as it comes.
    """
    with _Audit({**flop_registry, **(FUSED_ATTENTION if formulas is None else formulas)}) as audit:
        function(*args, **kwargs)
    return {operation: calls for operation, calls in audit.calls.items() if calls}


# ---- seconds ---------------------------------------------------------------------------------------------------------


class Timing(NamedTuple):
    """Seconds of one call: the median over the rounds, the least, the most, and each, in the order of rounds."""

    median: float
    low: float
    high: float
    rounds: tuple[float, ...]


def time_paired(
    functions: dict[str, Callable[[], object]],
    rounds: int = 9,
    warmup: int = 2,
    device: torch.device | str | None = None,
) -> dict[str, Timing]:
    """Seconds of each function, fairly: {name: Timing}.

    Each runs `warmup` times unmeasured (lazy initialisation, caches, autotuning), then once a round, each round
    starting with the next function, so that a slow minute of the machine or a warm cache meets all alike. The
    device's queue is empty before and after each call. device: where they compute (default: the GPU if there
    is one; ValueError if it is not here). The number of CPU threads is the caller's; torch.get_num_threads()
    states it.
    """
    if not functions:
        raise ValueError("nothing to time: give {name: function, ...}")
    if rounds < 1 or warmup < 0:
        raise ValueError(f"{rounds} rounds after {warmup} warm-up calls: at least 1 and 0")
    device = pick_device("auto") if device is None else torch.device(device)
    for function in functions.values():
        for _ in range(warmup):
            function()
    names = list(functions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for i in range(rounds):
        first = i % len(names)
        for name in names[first:] + names[:first]:
            seconds[name].append(_seconds(functions[name], device))
    return {name: Timing(median(times), min(times), max(times), tuple(times)) for name, times in seconds.items()}


def _seconds(function: Callable[[], object], device: torch.device) -> float:
    synchronize(device)
    start = time.perf_counter()
    function()
    synchronize(device)
    return time.perf_counter() - start


def ratio(a: Timing, b: Timing) -> float:
    """How many times as long `a` takes as `b`: the median of the ratios round by round, so that drift cancels."""
    if len(a.rounds) != len(b.rounds):
        raise ValueError(f"{len(a.rounds)} and {len(b.rounds)} rounds do not pair: time both in one time_paired")
    return median(x / y for x, y in zip(a.rounds, b.rounds, strict=True))
