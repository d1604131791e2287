"""The formulas: bytes, FLOPs, parameters, activations, time and cost. Pure arithmetic on numbers, without tensors.

A FLOP is one addition or multiplication, so that a multiply-add is two. Sizes are whole numbers above zero, and
whatever can be counted stays an int. Every function raises ValueError, with the value, for anything else.
"""

import math
from itertools import pairwise

from utils.facts import ModelShape

GB = 10**9  # bytes
DAY = 86_400  # seconds
FEW = 10_000  # heads; more than any model has

# Bytes of one value, by the name of torch's dtype. A second witness to torch's itemsize: a test compares them.
DTYPE_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e4m3fnuz": 1,
    "float8_e5m2": 1,
    "float8_e5m2fnuz": 1,
    "complex64": 8,
    "complex128": 16,
    "int64": 8,
    "int32": 4,
    "int16": 2,
    "int8": 1,
    "uint64": 8,
    "uint32": 4,
    "uint16": 2,
    "uint8": 1,
    "bool": 1,
}

# Bytes per parameter by content, for the usual ways to train.
RECIPES = {
    "sgd": {"weights": 4, "gradients": 4},
    "momentum": {"weights": 4, "gradients": 4, "momentum": 4},
    "fp32 adamw": {"weights": 4, "gradients": 4, "momentum": 4, "variance": 4},
    "mixed adamw": {"weights": 2, "gradients": 2, "master weights": 4, "momentum": 4, "variance": 4},
    "autocast": {"weights": 4, "gradients": 4, "momentum": 4, "variance": 4, "bf16 copies": 2},
    "pure bf16": {"weights": 2, "gradients": 2, "momentum": 2, "variance": 2},
}

# The stage of ZeRO from which each part is sharded; all other parts are optimizer state, sharded from stage 1.
SHARDED_FROM = {"weights": 3, "bf16 copies": 3, "gradients": 2}


def _whole(**sizes: int | float) -> None:
    """Raise ValueError unless every value is a whole number above zero."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name}={value!r} is no whole number: give an int above zero")
        if value <= 0:
            raise ValueError(f"{name}={value} is not above zero: give an int of at least 1")


def _positive(**amounts: float) -> None:
    """Raise ValueError unless every value is a finite number above zero."""
    for name, value in amounts.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
            raise ValueError(f"{name}={value!r}: give a finite number above zero")


def _one_of(name: str, value: str, allowed) -> None:
    if value not in allowed:
        raise ValueError(f"unknown {name} {value!r}: one of {', '.join(map(str, allowed))}")


def _share(name: str, value: float) -> None:
    _positive(**{name: value})
    if value > 1:
        raise ValueError(f"{name}={value!r} is more than all of it: give a share between 0 and 1")


# Tensors and matmuls


def tensor_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Bytes of a contiguous tensor; dtype as torch names it, such as "bfloat16". A scalar has the shape ()."""
    _one_of("dtype", dtype, DTYPE_BYTES)
    for axis, size in enumerate(shape):
        _whole(**{f"shape[{axis}]": size})
    return math.prod(shape) * DTYPE_BYTES[dtype]


def matmul_flops(m: int, k: int, n: int, batch: int = 1) -> int:
    """FLOPs of `batch` products (m, k) @ (k, n): k multiplications and k additions for each of m n outputs."""
    _whole(m=m, k=k, n=n, batch=batch)
    return 2 * batch * m * k * n


def matmul_bytes(m: int, k: int, n: int, bytes_per_value: int) -> int:
    """The least bytes that (m, k) @ (k, n) moves: both factors read once, the product written once."""
    _whole(m=m, k=k, n=n, bytes_per_value=bytes_per_value)
    return (m * k + k * n + m * n) * bytes_per_value


def mlp_forward_flops(batch: int, sizes: tuple[int, ...]) -> int:
    """FLOPs of the matmuls of a perceptron with layers sizes[0] → sizes[1] → … on `batch` examples."""
    if len(sizes) < 2:
        raise ValueError(f"sizes={sizes} makes no layer: give two sizes or more")
    return sum(matmul_flops(batch, wide, narrow) for wide, narrow in pairwise(sizes))


def arithmetic_intensity(flops: float, nbytes: float) -> float:
    """FLOPs per byte moved."""
    _positive(flops=flops, nbytes=nbytes)
    return flops / nbytes


def ridge_intensity(peak_flops_per_s: float, bandwidth_bytes_per_s: float) -> float:
    """The FLOPs per byte above which the arithmetic units, not the memory, limit the rate."""
    _positive(peak_flops_per_s=peak_flops_per_s, bandwidth_bytes_per_s=bandwidth_bytes_per_s)
    return peak_flops_per_s / bandwidth_bytes_per_s


def attainable_flops(intensity: float, peak_flops_per_s: float, bandwidth_bytes_per_s: float) -> float:
    """The roofline in FLOP/s (Williams, Waterman, Patterson 2009): memory feeds intensity x bandwidth, up to the peak."""
    _positive(intensity=intensity, peak_flops_per_s=peak_flops_per_s, bandwidth_bytes_per_s=bandwidth_bytes_per_s)
    return min(peak_flops_per_s, intensity * bandwidth_bytes_per_s)


# Transformers


def _check_shape(shape: ModelShape) -> None:
    sizes = ("layers", "width", "heads", "kv_heads", "ffn", "vocabulary", "context")
    _whole(**{name: getattr(shape, name) for name in sizes})
    if shape.width % shape.heads:
        below = shape.width // shape.heads * shape.heads
        widths = _either(*(width for width in (below, below + shape.heads) if width))
        heads = _either(*divisors_around(shape.width, shape.heads))
        problem = f"width={shape.width} does not split into heads={shape.heads}"
        raise ValueError(f"{problem}: choose width {widths}, or heads {heads}")
    if shape.heads % shape.kv_heads:
        shared = _either(*divisors_around(shape.heads, shape.kv_heads))
        problem = f"heads={shape.heads} do not share kv_heads={shape.kv_heads} evenly"
        raise ValueError(f"{problem}: choose kv_heads {shared}")


def divisors_around(whole: int, number: int) -> list[int]:
    """The largest divisor of `whole` that is not above `number`, and the smallest that is not below it if that is another.

    Looked for up to FEW, and `whole` itself is one too. Both are whole numbers above zero.
    """
    _whole(whole=whole, number=number)
    divisors = [each for each in range(1, min(whole, FEW) + 1) if whole % each == 0] + [whole]
    below = max(each for each in divisors if each <= number)
    above = min((each for each in divisors if each >= number), default=below)
    return sorted({below, above})


def _either(*sizes: int) -> str:
    return " or ".join(map(str, sizes))


def _matrices_of_a_layer(shape: ModelShape) -> dict[str, list[tuple[int, int]]]:
    """The (inputs, outputs) of each linear map: queries, keys, values, out; then the MLP."""
    _check_shape(shape)
    shared = shape.width // shape.heads * shape.kv_heads
    up, down = (shape.width, shape.ffn), (shape.ffn, shape.width)
    return {
        "attention": [(shape.width, shape.width), (shape.width, shared), (shape.width, shared), (shape.width,) * 2],
        "ffn": [up, up, down] if shape.gated else [up, down],
    }


def parameter_parts(shape: ModelShape) -> dict[str, int]:
    """Parameters by part: embedding, positions, attention, ffn, norms, head (0 where the embedding is the LM head)."""
    bias = int(shape.biases)
    parts = {
        part: shape.layers * sum(rows * columns + bias * columns for rows, columns in matrices)
        for part, matrices in _matrices_of_a_layer(shape).items()
    }
    table = shape.vocabulary * shape.width
    return {
        "embedding": table,
        "positions": shape.context * shape.width if shape.learned_positions else 0,
        **parts,
        "norms": (2 * shape.layers + 1) * shape.width * (2 if shape.norm_biases else 1),
        "head": 0 if shape.tied else table,
    }


def parameter_count(shape: ModelShape) -> int:
    """The number of parameters; a tied table counts once."""
    return sum(parameter_parts(shape).values())


def matmul_parameters(shape: ModelShape) -> int:
    """Parameters that every token is multiplied with: all matrices of the layers and the LM head, which is a matmul
    also where its table is the embedding's. No biases, no norms, no positions, no lookups."""
    matrices = [m for part in _matrices_of_a_layer(shape).values() for m in part]
    return shape.layers * sum(rows * columns for rows, columns in matrices) + shape.vocabulary * shape.width


def attention_flops(layers: int, width: int, tokens: int) -> int:
    """FLOPs of one forward's queries with keys, and shares with values: two products of tokens x tokens x width a layer.

    width: of all heads together. However many heads share keys and values, each query meets each key.
    """
    _whole(layers=layers, width=width, tokens=tokens)
    return 4 * layers * width * tokens**2


def forward_flops(shape: ModelShape, tokens: int, sequences: int = 1) -> int:
    """FLOPs of all matmuls of one forward on `sequences` sequences of `tokens` tokens each.

    Attention counts the full square of queries and keys: masked products are computed too.
    """
    _whole(tokens=tokens, sequences=sequences)
    weights = 2 * tokens * matmul_parameters(shape)
    return sequences * (weights + attention_flops(shape.layers, shape.width, tokens))


def backward_flops(shape: ModelShape, tokens: int, sequences: int = 1) -> int:
    """FLOPs of its backward: each matmul has two gradients of the forward's cost, as embeddings come before the first."""
    return 2 * forward_flops(shape, tokens, sequences)


def training_flops_6nd(parameters: int, tokens: int) -> int:
    """The rule of thumb for a training run: 2 FLOPs forward and 4 backward, per parameter and token.

    Source: Kaplan et al. 2020, arXiv:2001.08361, section 2.1. It ignores attention (see attention_share).
    """
    _whole(parameters=parameters, tokens=tokens)
    return 6 * parameters * tokens


def attention_share(tokens: int, width: int) -> float:
    """FLOPs of attention over those of the layers' weights: 4 T d / (2 x 12 d²) = T / (6 d).

    For layers of 12 d² weights: as many key as query heads, an MLP four times as wide, not gated.
    """
    _whole(tokens=tokens, width=width)
    return tokens / (6 * width)


# Runs: time, money, size


def chinchilla_optimal(flops: float, tokens_per_parameter: float = 20) -> tuple[float, float]:
    """(parameters, tokens) that spend `flops` by 6 N D at this ratio of tokens per parameter.

    Source of the 20: Hoffmann et al. 2022, arXiv:2203.15556, table 3 (Chinchilla itself: 70e9 and 1.4e12).
    """
    _positive(flops=flops, tokens_per_parameter=tokens_per_parameter)
    parameters = math.sqrt(flops / (6 * tokens_per_parameter))
    return parameters, tokens_per_parameter * parameters


def training_seconds(flops: float, processors: int, peak_flops_per_s: float, mfu: float) -> float:
    """Seconds that `processors`, each with this peak, need for `flops` at a utilisation of mfu, between 0 and 1."""
    _positive(flops=flops, peak_flops_per_s=peak_flops_per_s)
    _whole(processors=processors)
    _share("mfu", mfu)
    return flops / (processors * peak_flops_per_s * mfu)


def compute_budget(seconds: float, processors: int, peak_flops_per_s: float, mfu: float) -> float:
    """The FLOPs that `processors`, each with this peak, compute in that time at a utilisation of mfu, between 0 and 1."""
    _positive(seconds=seconds, peak_flops_per_s=peak_flops_per_s)
    _whole(processors=processors)
    _share("mfu", mfu)
    return processors * peak_flops_per_s * mfu * seconds


def cost_dollars(seconds: float, processors: int, dollars_per_hour: float) -> float:
    """The cost of `processors` for that time, each at that price."""
    _positive(seconds=seconds, dollars_per_hour=dollars_per_hour)
    _whole(processors=processors)
    return seconds / 3600 * processors * dollars_per_hour


def mfu(model_flops: float, seconds: float, peak_flops_per_s: float) -> float:
    """Model FLOPs utilisation: the FLOPs of the model (without recomputation) over those of the peak in that time."""
    _positive(model_flops=model_flops, seconds=seconds, peak_flops_per_s=peak_flops_per_s)
    return model_flops / (seconds * peak_flops_per_s)


# Memory of training


def optimizer_bytes_per_parameter(recipe: str) -> int:
    """Bytes per parameter of weights, gradients and the optimizer's state together, for a recipe of RECIPES."""
    _one_of("recipe", recipe, RECIPES)
    return sum(RECIPES[recipe].values())


def training_state_bytes(parameters: int, recipe: str) -> int:
    """Bytes of weights, gradients and optimizer state; no activations."""
    _whole(parameters=parameters)
    return parameters * optimizer_bytes_per_parameter(recipe)


def state_parts(parameters: int, recipe: str, ranks: int, stage: int) -> dict[str, int]:
    """Bytes on each of `ranks` devices, by the parts of a recipe of RECIPES; no activations.

    Stage 0 shards nothing, 1 the optimizer state, 2 also the gradients, 3 also the weights; an uneven shard is
    that of the fullest device. Source: Rajbhandari et al. 2020, arXiv:1910.02054, figure 1.
    """
    _whole(parameters=parameters, ranks=ranks)
    _one_of("recipe", recipe, RECIPES)
    _one_of("stage", stage, (0, 1, 2, 3))
    shard = -(-parameters // ranks)  # rounded up
    stored = {part: shard if stage >= SHARDED_FROM.get(part, 1) else parameters for part in RECIPES[recipe]}
    return {part: each * stored[part] for part, each in RECIPES[recipe].items()}


def zero_bytes(parameters: int, ranks: int, stage: int) -> int:
    """Bytes of weights (2), gradients (2) and optimizer state (12 per parameter) on each of `ranks` devices.

    Stages as in state_parts.
    """
    return sum(state_parts(parameters, "mixed adamw", ranks, stage).values())


def activation_bytes(batch: int, tokens: int, width: int, heads: int, attention: str = "plain") -> int:
    """Bytes that autograd saves for one Transformer layer: bias-free, normalised first, GELU, fp32, no dropout.

    16 tensors of batch x tokens x width (input, two norms, q, k, v, merged heads, middle, and 4 + 4 of the feed-forward
    part), the mean and deviation of two norms; and of attention: "plain" the probabilities and the mask, "flash" one
    number for each row of the probabilities.
    """
    _whole(batch=batch, tokens=tokens, width=width, heads=heads)
    _one_of("attention", attention, ("plain", "flash"))
    rows = batch * heads * tokens
    attention_values = 4 * rows * tokens + tokens**2 if attention == "plain" else 4 * rows
    return 64 * batch * tokens * width + 16 * batch * tokens + attention_values


def korthikanti_bytes_per_layer(
    sequence: int,
    batch: int,
    hidden: int,
    heads: int,
    tensor_parallel: int = 1,
    sequence_parallel: bool = False,
    recompute: str = "none",
) -> int:
    """Bytes per device of a layer's saved activations in 16 bits: s b h (34 + 5 a s / h), sharded and recomputed.

    tensor_parallel: devices that share the heads and the inner width of each layer; sequence_parallel: also its norms and
    dropouts. recompute: "selective" saves no attention scores, "full" only the layer's input.
    Source: Korthikanti et al. 2022, arXiv:2205.05198, table 2.
    """
    _whole(sequence=sequence, batch=batch, hidden=hidden, heads=heads, tensor_parallel=tensor_parallel)
    _one_of("recompute", recompute, ("none", "selective", "full"))
    if hidden % heads or heads % tensor_parallel:
        raise ValueError(
            f"hidden={hidden}, heads={heads}, tensor_parallel={tensor_parallel}: each must be a multiple of the next"
        )
    values = sequence * batch * hidden
    whole, shared, scores = 10 * values, 24 * values, 5 * heads * sequence**2 * batch
    if recompute == "full":
        whole, shared, scores = 2 * values, 0, 0
    elif recompute == "selective":
        scores = 0
    return (whole // tensor_parallel if sequence_parallel else whole) + (shared + scores) // tensor_parallel
