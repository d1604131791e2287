"""FLOPs, counted operation by operation."""

import re
from collections import Counter
from collections.abc import Callable
from math import prod

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, flop_registry


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
