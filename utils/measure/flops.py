"""FLOPs, counted operation by operation."""

import re
from collections import Counter
from collections.abc import Callable
from math import prod

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode, conv_flop_count, flop_registry


def scaled_dot_product_flops(query: tuple, key: tuple, value: tuple) -> int:
    """FLOPs of softmax(QKᵀ)V, the full square: 4·B·H·T²·d where keys and values are as long and wide as queries.

    Shapes (..., H, T, d), (..., K, S, d), (..., K, S, e). Each of the H query heads reads all S keys, also
    where K < H heads share them (grouped queries), and also the keys that a causal mask hides.
    """
    *heads, T, d = query
    S, e = value[-2:]
    return 2 * prod(heads) * T * S * (d + e)


def attention_formulas(recomputing: bool = False) -> dict:
    """FLOP formulas for the fused kernels of F.scaled_dot_product_attention, for FlopCounterMode(custom_mapping=...).

    Of CPUs and CUDA; nested tensors and flex_attention keep torch's own.

    The backward counts as the four matmuls that attention's gradient needs: twice the forward, 8·B·H·T²·d, as
    for plain attention. These are model FLOPs, the ones in MFU. recomputing=True adds the fifth matmul of the
    kernels, which compute QKᵀ again: 10·B·H·T²·d. These are hardware FLOPs, the ones in HFU, and torch's own
    counter reports them for the kernels that it knows.
    """

    def forward_flops(query, key, value, *args, out_shape=None, **kwargs) -> int:
        return scaled_dot_product_flops(query, key, value)

    def backward_flops(grad_out, query, key, value, *args, out_shape=None, **kwargs) -> int:
        scores_again = scaled_dot_product_flops(query, key, (*value[:-1], 0)) if recomputing else 0
        return 2 * scaled_dot_product_flops(query, key, value) + scores_again

    formulas = {}
    for kind in ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention"):
        formulas[getattr(torch.ops.aten, f"_scaled_dot_product_{kind}")] = forward_flops
        formulas[getattr(torch.ops.aten, f"_scaled_dot_product_{kind}_backward")] = backward_flops
    return formulas


FUSED_ATTENTION = attention_formulas()


def convolution_backward_flops(grad_out, x, weight, *args, out_shape=None) -> int:
    """As many as the forward's for each gradient. torch's own formula counts a grouped weight's `groups` times too often
    (github.com/pytorch/pytorch/pull/183405)."""
    transposed, output_mask = args[4], args[7]
    return sum(output_mask[:2]) * conv_flop_count(x, weight, grad_out, transposed)


FORMULAS = FUSED_ATTENTION | {torch.ops.aten.convolution_backward: convolution_backward_flops}


def flops_by_operation(function: Callable, *args, formulas: dict | None = None, **kwargs) -> dict[str, int]:
    """{"aten.mm": FLOPs, ...} of all operations that `function(*args, **kwargs)` runs, including a backward inside it.

    formulas: {torch.ops.aten.mv: f, ...} in addition to those of torch's counter, each f(*shapes, out_shape=...);
    the default, FORMULAS, gives the same total on cpu, meta and cuda; {} is torch's counter alone.
    Sums of products count (2 for each multiply-add), elementwise operations do not; uncounted_operations lists
    the sums of products that have no formula.
    """
    counter = FlopCounterMode(display=False, custom_mapping=FORMULAS if formulas is None else formulas)
    with counter:
        function(*args, **kwargs)
    return {str(operation): flops for operation, flops in counter.get_flop_counts().get("Global", {}).items()}


def count_flops(function: Callable, *args, formulas: dict | None = None, **kwargs) -> int:
    """The sum of flops_by_operation(...)."""
    return sum(flops_by_operation(function, *args, formulas=formulas, **kwargs).values())


# Words in the names of operations that sum products over an index, and names that contain such a word but do not.
CONTRACTION = re.compile(
    r"""\w*(mm|mv|dot) | matmul | gemm | linear | bilinear | trilinear | einsum | attention | transformer
    | rnn | lstm | gru | conv([123]d)? | convolution | fft | cdist | euclidean
    | linalg | cholesky | inverse | solve | det | slogdet | svd | eigh | eigvals | lu | qr | geqrf | ormqr | orgqr""",
    re.VERBOSE,
)
NO_CONTRACTION = ("linalg_vector_norm", "linalg_cross", "linalg_diagonal", "_linalg_check_errors", "_thnn_fused")
KNOWN_NAMESPACES = ("aten", "prim", "prims", "profiler")


def _may_contract(operation) -> bool:
    """Whether an operation's name suggests that it sums products, or suggests nothing because it is not torch's own."""
    namespace, name = operation.name().split("::")
    if namespace not in KNOWN_NAMESPACES:
        return True
    words = name.split(".")[0].strip("_").split("_")
    return any(map(CONTRACTION.fullmatch, words)) and not name.startswith(NO_CONTRACTION)


class _Audit(TorchDispatchMode):
    """Counts the calls of operations that may sum products and are not in `known`."""

    def __init__(self, known: dict):
        super().__init__()
        self.known, self.calls = known, Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        packet = function._overloadpacket
        if packet not in self.known:
            with self:  # as in torch's counter: a composite operation is judged by its parts
                result = function.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
            self.calls[str(packet)] += _may_contract(function)
        return function(*args, **kwargs)


def uncounted_operations(function: Callable, *args, formulas: dict | None = None, **kwargs) -> dict[str, int]:
    """{"aten.mv": calls, ...}: operations that sum products but that flops_by_operation counts as 0.

    Empty if every sum of products has a formula. Operations are recognised by name (CONTRACTION). Every operation
    outside torch's own namespaces that has no formula is listed too, since its name says nothing. Sums of products
    written as elementwise operations, (a * b).sum(), are not listed. formulas: as in flops_by_operation; {} audits
    torch's counter alone.
    """
    with _Audit({**flop_registry, **(FORMULAS if formulas is None else formulas)}) as audit:
        function(*args, **kwargs)
    return {operation: calls for operation, calls in audit.calls.items() if calls}
