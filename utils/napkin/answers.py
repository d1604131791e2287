"""The answers of seven calculators: pure functions of the user's inputs, with napkin's formulas and facts' numbers.

Each returns a frozen dataclass of numbers, and its `words`: sentences, the answer first. A count or an amount may be a
number or a typed text: "8B", "1.5e9", "1,024". Inputs without an answer raise ValueError or LookupError, in words.
"""

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from utils import napkin
from utils.facts import (
    FORMATS,
    MODELS,
    PRECISIONS,
    PROCESSORS,
    ModelShape,
    NumberFormat,
    find_processor,
    memory_size,
    peak_flops,
)
from utils.figures.numbers import byte_size, duration, prefixed, short_count

LARGEST = 30  # largest power of ten of a count or an amount
POWERS = {"": 0, "k": 3, "m": 6, "b": 9, "t": 12}
NUMBER = re.compile(r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d+(?:_\d+)*|(?=\.\d))(?:\.\d*)?(?:e[+-]?\d{1,6})?) ?([kmbt]?)", re.I)
MOST_AXES, MOST_ELEMENTS = 8, 2**63 - 1  # torch counts elements in 64 bits
# The dtype in which each precision of a matmul is stored; of the two fp8 formats that of weights and activations.
STORED_AS = {name: FORMATS["fp8 e4m3" if name == "fp8" else name].dtype for name in PRECISIONS}
RECOMPUTE = ("none", "selective", "full")
LOGITS = 3  # tensors as large as the logits at the peak: the log-probabilities, their gradient, and that of the logits
SIXTEEN_BITS = ("mixed adamw", "autocast", "pure bf16")  # recipes whose activations have 16 bits


# Reading inputs, writing answers


def amount(name: str, value: float | str) -> float:
    """The number that `value` means. ValueError, in words, if it is not a number, or is above 1e30."""
    number = _number(name, value)
    return int(number) if number == int(number) else float(number)


def count(name: str, value: float | str) -> int:
    """The whole number above zero that `value` means, or ValueError."""
    number = amount(name, value)
    if not isinstance(number, int) or number < 1:
        raise ValueError(f"{name}={shown(value)} is no whole number above zero: give 1 or more")
    return number


def _number(name: str, value: float | str) -> Decimal:
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = repr(float(value)) if isinstance(value, float) else str(value)
    text = value
    found = NUMBER.fullmatch(text.strip()) if isinstance(text, str) and len(text) < 400 and text.isascii() else None
    if found is None:
        raise ValueError(f"{name}={shown(value)} is no number: write it as 8B, 8e9 or 8,000,000,000")
    number = Decimal(found[1].replace(",", "").replace("_", "")).scaleb(POWERS[found[2].lower()])
    if number and not -LARGEST <= number.adjusted() <= LARGEST:
        size = "beyond 1e30" if number.adjusted() > 0 else "closer to zero than 1e-30"
        raise ValueError(f"{name}={shown(value)} is {size}, where this calculator ends: try something nearer to 1")
    return number


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:36]} …"


def one_of(name: str, value: object, allowed) -> None:
    if value not in allowed:
        raise ValueError(f"unknown {name} {shown(value)}: one of {', '.join(map(str, allowed))}")


def short_name(processor: str) -> str:
    """A processor's name without its maker and its module: "H100" for "NVIDIA H100 80GB HBM3"."""
    return re.sub(r"^(NVIDIA|AMD) (GeForce )?|(-SXM4-80GB| 80GB HBM3)$", "", processor)


def _dollars(dollars: float) -> str:
    if dollars < 100:
        return f"{dollars:.2f} dollars"
    return f"{dollars:,.0f} dollars" if dollars < 1e12 else f"{dollars:.3g} dollars"


# 1. Training time


@dataclass(frozen=True)
class TrainingTime:
    """A run of `parameters` on `tokens`; seconds_by_gpu: the same on as many of each kind that computes in bf16."""

    parameters: int
    tokens: int
    gpu: str
    gpus: int
    mfu: float
    flops: int
    seconds: float
    dollars: float
    seconds_by_gpu: dict[str, float]

    @property
    def days(self) -> float:
        return self.seconds / napkin.DAY

    @property
    def gpu_hours(self) -> float:
        return self.seconds / 3600 * self.gpus

    @property
    def words(self) -> tuple[str, ...]:
        peak = prefixed(peak_flops(self.gpu, "bf16"), "FLOP/s", 4)
        return (
            f"{duration(self.seconds)}, {_dollars(self.dollars)}",
            f"6 × {short_count(self.parameters)} parameters × {short_count(self.tokens)} tokens = {self.flops:.4g} FLOPs.",
            f"{short_count(self.gpus)} × {short_name(self.gpu)} at {self.mfu:.3g} of {peak} each, bf16, dense.",
            f"{short_count(self.gpu_hours)} GPU-hours. Tokens for each parameter: {self.tokens / self.parameters:,.4g}.",
        )


def training_time(parameters, tokens, gpu: str, gpus, mfu, dollars_per_hour) -> TrainingTime:
    """Duration and cost of a run by 6 N D, at a utilisation of `mfu` of the dense bf16 peak.

    parameters, tokens, gpus: counts; gpu: a name in facts.PROCESSORS; dollars_per_hour: of one GPU.
    """
    parameters, tokens, gpus = count("parameters", parameters), count("tokens", tokens), count("gpus", gpus)
    mfu, price = amount("mfu", mfu), amount("dollars_per_hour", dollars_per_hour)
    flops = napkin.training_flops_6nd(parameters, tokens)
    peak = peak_flops(gpu, "bf16")
    seconds = napkin.training_seconds(flops, gpus, peak, mfu)
    others = {name: napkin.training_seconds(flops, gpus, peak_flops(name, "bf16"), mfu) for name in with_bf16()}
    dollars = napkin.cost_dollars(seconds, gpus, price)
    return TrainingTime(parameters, tokens, gpu, gpus, mfu, flops, seconds, dollars, others)


def with_bf16() -> list[str]:
    """The processors that have bf16 units: those that train large models."""
    return [processor.name for processor in PROCESSORS if "bf16" in processor.flops]


# 2. Storage


@dataclass(frozen=True)
class Storage:
    """A view of a contiguous tensor: strides and offset in elements; `code` makes it in torch."""

    code: str
    stored_shape: tuple[int, ...]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    itemsize: int
    contiguous: bool

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def stored(self) -> int:
        return math.prod(self.stored_shape)

    @property
    def nominal_bytes(self) -> int:
        return self.elements * self.itemsize

    @property
    def stored_bytes(self) -> int:
        return self.stored * self.itemsize

    @property
    def words(self) -> tuple[str, ...]:
        kept = (
            f"{self.elements:,} of {self.stored:,} stored elements" if self.elements < self.stored else "all elements"
        )
        return (
            f"shape {self.shape}, stride {self.stride}, offset {self.offset}",
            f"{self.elements:,} × {self.itemsize} B = {self.nominal_bytes:,} B nominal, {self.stored_bytes:,} B in the "
            f"storage: the view reads {kept}.",
            "Contiguous: view(-1) works, and nothing is copied."
            if self.contiguous
            else f"Not contiguous: contiguous() would copy, and make a storage of its own of {self.nominal_bytes:,} B.",
            f"In torch: {self.code}",
        )


def storage(shape: str | tuple[int, ...], dtype: str, transposed: bool = False, start=0, step=1) -> Storage:
    """The memory layout of a new tensor of `shape`, seen through a view: its last two axes swapped if `transposed`, then
    of the last axis every `step`-th element from `start` on.

    shape: sizes, or as typed: "4, 6". dtype: a name in napkin.DTYPE_BYTES.
    """
    sizes = _sizes(shape)
    nbytes = napkin.tensor_bytes(sizes, dtype)
    itemsize = napkin.DTYPE_BYTES[dtype]
    if nbytes // itemsize > MOST_ELEMENTS:
        raise ValueError(f"shape {sizes} has more elements than 64 bits can count: make an axis smaller")
    start, step = amount("start", start), count("step", step)
    if not isinstance(start, int) or start < 0:
        raise ValueError(f"start={shown(start)} is no place on an axis: give 0 or a whole number above")
    view = list(sizes)
    stride = [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
    code = f"torch.empty({sizes}, dtype=torch.{dtype})"
    if transposed:
        if len(view) < 2:
            raise ValueError(f"shape {sizes} has {len(view)} axes, and to transpose takes two: write 4, 6")
        view[-2:], stride[-2:] = view[:-3:-1], stride[:-3:-1]
        code += ".mT"
    offset = 0
    if (start, step) != (0, 1):
        if not view:
            raise ValueError("a scalar has no axis to slice: set start to 0 and step to 1, or write a shape")
        if start >= view[-1]:
            raise ValueError(
                f"start={start} leaves nothing of an axis of {view[-1]}: start at {view[-1] - 1} or before"
            )
        offset = start * stride[-1]
        view[-1], stride[-1] = len(range(start, view[-1], step)), step * stride[-1]
        code += f"[..., {start}::{step}]"
    return Storage(code, sizes, tuple(view), tuple(stride), offset, itemsize, _is_contiguous(view, stride))


def _sizes(shape: str | tuple[int, ...]) -> tuple[int, ...]:
    if isinstance(shape, str):
        text = shape.strip().removeprefix("torch.Size").strip()
        if text[:1] + text[-1:] in ("()", "[]", "([", "])"):
            text = text[1:-1].strip("[]")
        shape = [part for part in re.split(r"\s*[,×x]\s*|\s+", text.strip().rstrip(",")) if part]
    if not isinstance(shape, list | tuple):
        raise ValueError(f"shape={shown(shape)} is no shape: write its sizes as 4, 6")
    if len(shape) > MOST_AXES:
        raise ValueError(f"{len(shape)} axes are more than the {MOST_AXES} that are drawn here: write fewer")
    try:
        return tuple(count(f"shape[{axis}]", size) for axis, size in enumerate(shape))
    except ValueError as error:
        raise ValueError(f"a shape has whole sizes, such as 4, 6: {error}") from None


def _is_contiguous(shape: list[int], stride: list[int]) -> bool:
    """Whether the view visits the storage element by element in order; an axis of size 1 does not matter."""
    expected = 1
    for size, step in zip(reversed(shape), reversed(stride), strict=True):
        if size > 1 and step != expected:
            return False
        expected *= size
    return True


# 3. Number formats


IN_TRAINING = {
    "fp64": "sums that run long, and checks of gradients",
    "fp32": "weights, the optimizer's state, norms and losses",
    "tf32": "inputs of matrix products on tensor cores; their sums stay in fp32",
    "fp16": "matrix products; the weights need a copy in fp32, and the loss a scale, or small gradients become 0",
    "bf16": "matrix products; the weights need a copy in fp32, or small updates are lost",
    "fp8 e4m3": "weights and activations in matrix products, with a scale for each tensor",
    "fp8 e5m2": "gradients in matrix products, with a scale for each tensor",
}


@dataclass(frozen=True)
class StoredNumber:
    """A typed number stored in a format; exact values are fractions, special ones inf, -inf or nan.

    bits: of the format alone (tf32: its 19), sign first. below, above: the numbers of the format around the stored one.
    limits: of every format, (smallest, smallest normal, largest).
    """

    typed: str
    format: NumberFormat
    bits: str
    kind: str
    exact: Fraction | float
    stored: Fraction | float
    below: Fraction | float
    above: Fraction | float
    limits: dict[str, tuple[float, float, float]]

    @property
    def error(self) -> Fraction | float:
        """Stored minus typed: 0 if both are the same infinity, inf or nan if one is."""
        if isinstance(self.exact, Fraction) and isinstance(self.stored, Fraction):
            return self.stored - self.exact
        return Fraction(0) if self.stored == self.exact else float(self.stored) - float("inf") * _sign(self.exact)

    @property
    def words(self) -> tuple[str, ...]:
        smallest, normal, largest = self.limits[self.format.name]
        exponent = self.format.exponent
        fields = f"{self.bits[0]} {self.bits[1 : 1 + exponent]} {self.bits[1 + exponent :]}"
        return (
            f"{self.format.name} holds {decimal(self.stored)}",
            self._about_error(),
            f"Bits: {fields} (sign, exponent, mantissa), {self._about_value()}.",
            f"Its neighbours in {self.format.name}: {decimal(self.below)} and {decimal(self.above)}.",
            f"{self.format.name} reaches from {smallest:.3g}, with all its digits from {normal:.5g}, to {largest:.6g}.",
            f"In training: {IN_TRAINING[self.format.name]}.",
        )

    def _about_error(self) -> str:
        if isinstance(self.exact, float) and math.isnan(self.exact):
            return "Not a number: it equals nothing, not even itself."
        if self.stored == self.exact:
            return "Exactly what was typed: no error."
        if not isinstance(self.stored, Fraction):
            return f"Overflow: {self.typed} is beyond the largest number of {self.format.name}."
        if not isinstance(self.exact, Fraction):
            return f"{self.format.name} has no infinity: torch holds its largest number (before torch 2.13: nan)."
        relative = abs(self.error / self.exact)
        text = f"Error {_scientific(self.error)}, {_scientific(relative * 100)} % of the number."
        if self.kind == "zero":
            text += " It is gone: underflow."
        if not self.format.infinities and abs(self.exact) > _edge(self.format):
            text += " Overflow without an infinity: held at the largest number (before torch 2.13: nan)."
        return text

    def _about_value(self) -> str:
        if self.kind in ("infinity", "nan"):
            return f"which means {self.kind}"
        form = self.format
        field = int(self.bits[1 : 1 + form.exponent], 2)
        power = max(field, 1) - _bias(form)
        return (
            f"{self.kind}: {self.bits[0].translate(SIGNS)}{min(field, 1)}.{self.bits[1 + form.exponent :]}₂ × 2^{power}"
        )


SIGNS = str.maketrans("01", "+−")


def number(typed: str | float, form: str) -> StoredNumber:
    """What a format of facts.FORMATS stores of a number as typed: "0.1", "1/3", "65504", "1e-8", "inf", "nan".

    Rounded as torch does: to fp64, to fp32, to the format, each to the nearest, ties to even; tf32 cuts the digits of
    fp32 that it lacks. float8_e4m3fn, which has no infinity, holds its largest number, as from torch 2.13 on.
    """
    one_of("format", form, FORMATS)
    chosen = FORMATS[form]
    exact = _typed(typed)
    negative = _sign(exact) < 0 or (exact == 0 and str(typed).strip().startswith("-"))
    if isinstance(exact, float) and math.isnan(exact):
        codes = 2 ** (chosen.exponent + chosen.mantissa)
        code, negative = codes - 1 if _bits(chosen) == 8 else codes - 2 ** (chosen.mantissa - 1), False
    else:
        code = _rounded(abs(exact), chosen)
    stored, below, above = (_decoded(near, chosen) for near in (code, code - 1, code + 1))
    if negative:
        stored, below, above = -stored, -above, -below
    bits = f"{int(negative)}{code:0{_bits(chosen) - 1}b}"
    limits = {name: _limits(each) for name, each in FORMATS.items()}
    return StoredNumber(str(typed).strip(), chosen, bits, _kind(code, chosen), exact, stored, below, above, limits)


def _typed(typed: str | float) -> Fraction | float:
    text = str(typed).strip().lower().replace("−", "-")
    sign = -1 if text.startswith("-") else 1
    if text.lstrip("+-") in ("inf", "infinity", "∞") and len(text) - len(text.lstrip("+-")) < 2:
        return sign * math.inf
    if text == "nan":
        return math.nan
    found = re.fullmatch(r"([+-]?)(\d{1,40})\s*/\s*(\d{1,40})", text, re.ASCII)
    if found and int(found[3]):
        return sign * Fraction(int(found[2]), int(found[3]))
    found = re.fullmatch(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:e([+-]?\d{1,4}))?", text.replace("_", ""), re.ASCII)
    if found is None or len(text) > 100:
        raise ValueError(f"{shown(typed)} is no number: write 0.1, 1e-8, 1/3, inf or nan")
    power = int(found[2] or 0)
    if abs(power) > 400:
        raise ValueError(f"{shown(typed)} is beyond every format here: keep powers of ten between -400 and 400")
    return Fraction(Decimal(found[1])) * Fraction(10) ** power


def _sign(value: Fraction | float) -> int:
    return (value > 0) - (value < 0)


def _bits(form: NumberFormat) -> int:
    return 1 + form.exponent + form.mantissa


def _bias(form: NumberFormat) -> int:
    return 2 ** (form.exponent - 1) - 1


def _last(form: NumberFormat) -> int:
    """The code of the largest number."""
    return 2 ** (form.exponent + form.mantissa) - (2**form.mantissa + 1 if form.infinities else 2)


def _edge(form: NumberFormat) -> Fraction:
    """The overflow limit: half a step above the largest number. Larger values overflow."""
    last = _decoded(_last(form), form)
    return last + (last - _decoded(_last(form) - 1, form)) / 2


def _rounded(value: Fraction | float, form: NumberFormat) -> int:
    """The code that torch makes of a positive number or infinity, by way of fp64 and fp32."""
    way = [FORMATS["fp64"], FORMATS["fp32"], form][: 1 if form.name == "fp64" else 2 if form.name == "fp32" else 3]
    for stop in way:
        code = _nearest(value, stop, cut=stop.name == "tf32")
        value = _decoded(code, stop)
    return code


def _nearest(value: Fraction | float, form: NumberFormat, cut: bool) -> int:
    """The code of the nearest number of the format, ties to even; with `cut`, of the next one below."""
    beyond = _last(form) + (1 if form.infinities else 0)
    if value == math.inf:
        return beyond
    lowest = 1 - _bias(form)
    power = lowest
    if value:
        size = value.numerator.bit_length() - value.denominator.bit_length()  # of 2^power ≤ value, or one more
        power = max(lowest, size - (value < Fraction(2) ** size))
    steps = value / Fraction(2) ** (power - form.mantissa)
    places = math.floor(steps) if cut else round(steps)
    return min(beyond, (power - lowest) * 2**form.mantissa + places)


def _decoded(code: int, form: NumberFormat) -> Fraction | float:
    """The number with this code, without its sign; code -1 is the number below zero."""
    if code < 0:
        return -_decoded(-code, form)
    if code > _last(form):
        return math.inf if form.infinities and code == _last(form) + 1 else math.nan
    field, digits = divmod(code, 2**form.mantissa)
    hidden = 2**form.mantissa if field else 0
    return Fraction(hidden + digits) * Fraction(2) ** (max(field, 1) - _bias(form) - form.mantissa)


def _kind(code: int, form: NumberFormat) -> str:
    value = _decoded(code, form)
    if not isinstance(value, Fraction):
        return "nan" if math.isnan(value) else "infinity"
    return "zero" if not code else "normal" if code >= 2**form.mantissa else "subnormal"


def _limits(form: NumberFormat) -> tuple[float, float, float]:
    return tuple(float(_decoded(code, form)) for code in (1, 2**form.mantissa, _last(form)))


def decimal(value: Fraction | float) -> str:
    """All digits of a stored number if there are at most 20, otherwise 17 of them and an ellipsis."""
    if not isinstance(value, Fraction):
        return str(value)
    exact = Decimal(float(value)).normalize()
    if len(exact.as_tuple().digits) > 20:
        return f"{float(value):.17g}…"
    return f"{exact:f}" if -6 <= exact.adjusted() < 16 else f"{exact:e}"


def _scientific(value: Fraction) -> str:
    """Three digits, even of numbers outside the range of float."""
    return f"{Decimal(value.numerator) / Decimal(value.denominator):.3g}"


# 4. Matmul

COMPARED = ("NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3")


@dataclass(frozen=True)
class Matmul:
    """A product (m, k) @ (k, n) on one processor; attainable, peak in FLOP/s; roofs: precision -> peak FLOP/s."""

    shape: tuple[int, int, int]
    gpu: str
    precision: str
    flops: int
    nbytes: int
    intensity: float
    ridge: float
    attainable: float
    peak: float
    bandwidth: float
    roofs: dict[str, float]

    @property
    def seconds(self) -> float:
        return self.flops / self.attainable

    @property
    def bound_by(self) -> str:
        return "memory" if self.intensity < self.ridge else "arithmetic"

    @property
    def words(self) -> tuple[str, ...]:
        m, k, n = (short_count(size) for size in self.shape)
        return (
            f"{duration(self.seconds)} at best, bound by {self.bound_by}",
            f"({m}, {k}) @ ({k}, {n}): 2 m k n = {self.flops:.4g} FLOPs, and {byte_size(self.nbytes)} moved at the least.",
            f"{self.intensity:,.4g} FLOPs for each byte; {short_name(self.gpu)} in {self.precision} needs "
            f"{self.ridge:,.4g} to be busy.",
            f"At most {prefixed(self.attainable, 'FLOP/s', 4)}, {100 * self.attainable / self.peak:.3g} % of the peak.",
            f"The same product elsewhere, at best: {'; '.join(self._on(gpu) for gpu in COMPARED)}.",
        )

    def _on(self, gpu: str) -> str:
        times = [f"{duration(matmul(*self.shape, gpu, each).seconds)} in {each}" for each in ("fp32", "bf16")]
        return f"{short_name(gpu)} {', '.join(times)}"


def matmul(m, k, n, gpu: str, precision: str) -> Matmul:
    """FLOPs, bytes and the least time of (m, k) @ (k, n), all three matrices in `precision`, each moved once."""
    m, k, n = count("m", m), count("k", k), count("n", n)
    peak = peak_flops(gpu, precision)
    processor = find_processor(gpu)
    flops = napkin.matmul_flops(m, k, n)
    nbytes = napkin.matmul_bytes(m, k, n, napkin.DTYPE_BYTES[STORED_AS[precision]])
    intensity = napkin.arithmetic_intensity(flops, nbytes)
    ridge = napkin.ridge_intensity(peak, processor.bandwidth)
    attainable = napkin.attainable_flops(intensity, peak, processor.bandwidth)
    sizes = (m, k, n)
    roofs = dict(processor.flops)
    return Matmul(sizes, gpu, precision, flops, nbytes, intensity, ridge, attainable, peak, processor.bandwidth, roofs)


# 5. Parameter shares


@dataclass(frozen=True)
class Parameters:
    """Parameters by part, of a shape and of the known models: {name: {part: parameters}}."""

    shape: ModelShape
    parts: dict[str, int]
    known: dict[str, dict[str, int]]

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    @property
    def same_as(self) -> str:
        """The known models with exactly these parts."""
        return ", ".join(name for name, parts in self.known.items() if parts == self.parts)

    @property
    def words(self) -> tuple[str, ...]:
        largest = max(self.parts, key=self.parts.get)
        tables = self.parts["embedding"] + self.parts["head"]
        same = f" That is {self.same_as}, to the last one." if self.same_as else ""
        return (
            f"{self.total:,} parameters" if self.total < 10**15 else f"{self.total:.4g} parameters",
            f"The largest part is {largest}: {_percent(self.parts[largest], self.total)}. Embedding matrix and LM head "
            f"together: {_percent(tables, self.total)}.{same}",
            f"A head is {self.shape.width // self.shape.heads} wide. More heads cost nothing while each has keys of its own."
            if self.shape.heads == self.shape.kv_heads
            else f"A head is {self.shape.width // self.shape.heads} wide; {self.shape.heads} query heads share "
            f"{self.shape.kv_heads} of keys and values.",
        )


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.3g} %"


def parameters(
    layers, width, heads, kv_heads, ffn, vocabulary, context, gated: bool, tied: bool, positions: bool, biases: bool
) -> Parameters:
    """The parameters of a decoder-only Transformer, part by part.

    positions: a learned table of `context` vectors; biases: on every linear map but the LM head, and in the norms.
    """
    sizes = {"layers": layers, "width": width, "heads": heads, "kv_heads": kv_heads, "ffn": ffn}
    sizes |= {"vocabulary": vocabulary, "context": context}
    shape = ModelShape(
        "yours",
        **{name: count(name, size) for name, size in sizes.items()},
        gated=bool(gated),
        tied=bool(tied),
        learned_positions=bool(positions),
        biases=bool(biases),
        norm_biases=bool(biases),
        source="what was set",
    )
    known = {name: napkin.parameter_parts(other) for name, other in MODELS.items()}
    return Parameters(shape, napkin.parameter_parts(shape), known)


def slider_stop(name: str, number: int, sizes: dict[str, object]) -> int:
    """Where a slider for the width, the heads or their kv_heads stops: the size nearest to `number` that goes with `sizes`.

    A width splits into the heads, heads split the width, heads of keys are shared by the heads. Where what it has to go
    with is no count: `number` itself.
    """
    partner = {"width": "heads", "heads": "width", "kv_heads": "heads"}[name]
    try:
        other = count(partner, sizes[partner])
    except ValueError:
        return number
    if name == "width":
        return other * max(1, round(number / other))
    return min(napkin.divisors_around(other, number), key=lambda each: abs(each - number))


def keys_that_follow(heads, kv_heads, before) -> int | None:
    """The heads of keys after the heads went from `before` to `heads`: where each had keys of its own it keeps them, else
    as many as before, or the nearest number that the heads share. None where one of the three is no count."""
    try:
        heads, kv_heads, before = count("heads", heads), count("kv_heads", kv_heads), count("heads", before)
    except ValueError:
        return None
    return heads if kv_heads == before else slider_stop("kv_heads", kv_heads, {"heads": heads})


# 6. Memory budget


@dataclass(frozen=True)
class Memory:
    """Bytes on each GPU by part, for the chosen stage and for all stages; limit: bytes of one GPU."""

    model: str
    gpu: str
    gpus: int
    recipe: str
    stage: int
    by_stage: dict[int, dict[str, int]]
    limit: int

    @property
    def parts(self) -> dict[str, int]:
        return self.by_stage[self.stage]

    @property
    def total(self) -> int:
        return sum(self.parts.values())

    @property
    def fits(self) -> bool:
        return self.total <= self.limit

    @property
    def words(self) -> tuple[str, ...]:
        gap = byte_size(abs(self.limit - self.total))
        card = f"{byte_size(self.limit)} of one {short_name(self.gpu)}"
        verdict = (
            f"fits into the {card}, {gap} to spare" if self.fits else f"does not fit into the {card}: {gap} too much"
        )
        split = ", ".join(f"{part} {byte_size(nbytes)}" for part, nbytes in self.parts.items())
        return (
            f"{byte_size(self.total)} on each GPU: {verdict}",
            f"{split[:1].upper()}{split[1:]}.",
            self._advice(),
            "Activations are a GPT's, also for a LLaMA. Left out: other temporaries, communication buffers, what the "
            "allocator wastes.",
        )

    def _advice(self) -> str:
        stages = [stage for stage, parts in self.by_stage.items() if sum(parts.values()) <= self.limit]
        state = sum(self.parts[part] for part in ("weights", "gradients", "optimizer state"))
        if self.fits:
            least = f"ZeRO stage {stages[0]} is the lowest that fits" if stages[0] else "It fits without ZeRO"
            return f"{least}; {_percent(state, self.total)} of it is weights, gradients and optimizer state."
        if stages:
            return f"ZeRO stage {stages[0]} would fit."
        if self.total - state > self.limit:
            return "No stage helps: the activations alone are too much. Recompute more, or take fewer or shorter sequences."
        return "No stage is enough: take more GPUs, recompute more, or take fewer or shorter sequences."


def memory(model: str, recipe: str, stage: int, gpu: str, gpus, batch, tokens, recompute: str) -> Memory:
    """Memory for training one of facts.MODELS on each of `gpus`, data-parallel.

    recipe: of napkin.RECIPES; stage: of ZeRO, 0 for none; batch: sequences on each GPU at once, of `tokens` tokens each;
    recompute: "none", "selective" (no scores of attention are kept) or "full" (a layer's input alone, and one layer whole
    while it is recomputed). Activations of a GPT's layer by napkin's two laws, and LOGITS tensors as large as
    the logits in fp32.
    """
    for name, value, allowed in (("model", model, MODELS), ("recompute", recompute, RECOMPUTE)):
        one_of(name, value, allowed)
    gpus, batch, tokens = count("gpus", gpus), count("batch", batch), count("tokens", tokens)
    shape = MODELS[model]
    size = napkin.parameter_count(shape)
    rest = {
        "activations": _activations(shape, recipe, batch, tokens, recompute),
        "logits": LOGITS * napkin.tensor_bytes((batch, tokens, shape.vocabulary), "float32"),
    }
    one_of("stage", stage, range(4))
    by_stage = {each: _state(size, recipe, gpus, each) | rest for each in range(4)}
    return Memory(model, gpu, gpus, recipe, stage, by_stage, memory_size(gpu))


def _state(size: int, recipe: str, gpus: int, stage: int) -> dict[str, int]:
    parts = napkin.state_parts(size, recipe, gpus, stage)
    weights = parts.pop("weights") + parts.pop("bf16 copies", 0)
    return {"weights": weights, "gradients": parts.pop("gradients"), "optimizer state": sum(parts.values())}


def _activations(shape: ModelShape, recipe: str, batch: int, tokens: int, recompute: str) -> int:
    def layer(how: str) -> int:
        if recipe in SIXTEEN_BITS:
            return napkin.korthikanti_bytes_per_layer(tokens, batch, shape.width, shape.heads, recompute=how)
        if how == "full":
            return napkin.tensor_bytes((batch, tokens, shape.width), "float32")
        attention = "flash" if how == "selective" else "plain"
        return napkin.activation_bytes(batch, tokens, shape.width, shape.heads, attention)

    return shape.layers * layer(recompute) + (layer("none") if recompute == "full" else 0)


# 7. N against D


@dataclass(frozen=True)
class Scaling:
    """A budget of FLOPs divided between parameters and tokens: optimally, and for a chosen model."""

    gpu: str
    gpus: int
    days: float
    flops: float
    best: tuple[float, float]
    ratio: float
    parameters: int
    tokens: float

    @property
    def tokens_per_parameter(self) -> float:
        return self.tokens / self.parameters

    @property
    def words(self) -> tuple[str, ...]:
        size, data = self.best
        times = self.tokens_per_parameter / self.ratio
        side, factor = "more" if times > 1 else "less", f"{max(times, 1 / times):,.3g}"
        against = "about as many as" if factor == "1" else f"{factor} times {side} than"
        return (
            f"compute-optimal: {short_count(size)} parameters on {short_count(data)} tokens",
            f"{short_count(self.gpus)} × {short_name(self.gpu)} for {duration(self.days * napkin.DAY)} do {self.flops:.4g} "
            "FLOPs, all runs on the line.",
            f"Your {short_count(self.parameters)} parameters could see {short_count(self.tokens)} tokens, "
            f"{self.tokens_per_parameter:,.4g} for each: {against} {self.ratio:g}.",
        )


def scaling(gpu: str, gpus, days, mfu, tokens_per_parameter, parameters) -> Scaling:
    """What a number of GPUs can train in so many days: the compute-optimal model by a fixed number of tokens for each
    parameter, and how many tokens a model of `parameters` would see."""
    gpus, parameters = count("gpus", gpus), count("parameters", parameters)
    days, mfu = amount("days", days), amount("mfu", mfu)
    ratio = amount("tokens_per_parameter", tokens_per_parameter)
    flops = napkin.compute_budget(days * napkin.DAY, gpus, peak_flops(gpu, "bf16"), mfu)
    best = napkin.chinchilla_optimal(flops, ratio)
    tokens = flops / napkin.training_flops_6nd(parameters, 1)
    return Scaling(gpu, gpus, days, flops, best, ratio, parameters, tokens)
