"""Ten calculators with sliders: `show("training-time")` in a notebook. The only module that imports ipywidgets.

answers.py and step_answers.py compute what they say, utils/figures draws it. Nonsense is answered in words. Where no sliders
 can be (a page, a notebook that is only executed) a calculator is its first state, as words and a picture.

In the page each has stable classes: `calculator calculator-NAME` around all, in it `calculator-preset`, one
`calculator-input input-ARGUMENT` for each argument, `calculator-answer` and `calculator-picture`.
"""

import base64
import contextlib
import html
import io
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import ipywidgets as widgets
from traitlets import Any, Unicode, link

from utils import napkin
from utils.facts import FORMATS, MODELS, OTHER_GPUS, PRECISIONS, PROCESSORS
from utils.figures import calculators as figures
from utils.figures import step_calculators as step_figures
from utils.figures.numbers import byte_size, duration, prefixed, short_count
from utils.napkin import answers, papers, step_answers

OWN = "your own"
FULL_NAMES = {answers.short_name(each.name): each.name for each in (*PROCESSORS, *OTHER_GPUS)}
A100, H100, H200, B200, RTX_4090, RTX_4060, RYZEN = (
    FULL_NAMES[short] for short in ("A100", "H100", "H200", "B200", "RTX 4090", "RTX 4060", "Ryzen 7 7840U")
)
NOTE = "Run this cell in JupyterLab or Colab to set it yourself."


# Inputs


@dataclass(frozen=True)
class Scale:
    """A count or an amount over several powers of `base`: a logarithmic slider and a text box."""

    name: str
    label: str
    low: float  # powers
    high: float
    base: int = 10

    def control(self, value: object) -> widgets.Widget:
        return ScaleControl(self, value)


@dataclass(frozen=True)
class Slide:
    """A number in even steps."""

    name: str
    label: str
    low: float
    high: float
    step: float = 1

    def control(self, value: object) -> widgets.Widget:
        return SlideControl(self, value)


@dataclass(frozen=True)
class Choice:
    """A choice; options: label -> value."""

    name: str
    label: str
    options: dict[str, object]

    def control(self, value: object) -> widgets.Widget:
        return widgets.Dropdown(options=list(self.options.items()), value=value, **_row(self.label))


@dataclass(frozen=True)
class Switch:
    name: str
    label: str

    def control(self, value: object) -> widgets.Widget:
        return widgets.Checkbox(value=value, **_row(self.label))


@dataclass(frozen=True)
class Typed:
    name: str
    label: str

    def control(self, value: object) -> widgets.Widget:
        return widgets.Text(value=value, continuous_update=False, **_row(self.label))


def _row(label: str) -> dict:
    """A row of the form: the label in a column as wide as the longest, the control in all the rest."""
    wide = widgets.Layout(width="auto", flex="1 1 auto")
    return {"description": label, "style": {"description_width": "170px"}, "layout": wide}


def _box(label: str) -> dict:
    """The box with the number, at the end of a slider's row. ipywidgets gives a slider no name that a screen reader could
    say, and of a logarithmic one the exponent: the box has the name and the number, and sets it as well."""
    return {"tooltip": label, "layout": widgets.Layout(width="130px", flex="none")}


class SlideControl(widgets.HBox):
    """A slider and a text box of its number that follow each other; `value` is the number."""

    value = Any()

    def __init__(self, slide: Slide, value: float):
        kind = widgets.IntSlider if slide.step == 1 else widgets.FloatSlider
        span = {"min": slide.low, "max": slide.high, "step": slide.step}
        self.slider = kind(value=value, readout=False, **span, **_row(slide.label))
        self.box = widgets.Text(continuous_update=False, **_box(slide.label))
        super().__init__([self.slider, self.box])
        link((self.slider, "value"), (self, "value"))
        self._write()
        self.slider.observe(self._write, "value")
        self.box.observe(self._follow, "value")

    def _write(self, change: dict | None = None) -> None:
        self.box.value = f"{self.slider.value:.9g}"  # without a browser's rounding

    def _follow(self, change: dict) -> None:
        """Move the slider to the box's number, or as near as it goes; no number leaves it where it is."""
        with contextlib.suppress(ValueError, OverflowError):
            number = float(change["new"])
            if not math.isnan(number):
                self.slider.value = type(self.slider.value)(number)
        self._write()


class ScaleControl(widgets.HBox):
    """A slider and a text box that follow each other; the text in the box is the `value`."""

    value = Unicode()

    def __init__(self, scale: Scale, value: object):
        self.scale, self.step = scale, 0.05 if scale.base == 10 else 1
        self.place = 0  # position of the slider, in steps from its lower end
        self.stop: Callable[[float], str] = written  # the text for a number of the slider
        span = {"min": scale.low, "max": scale.high, "step": self.step}
        self.slider = widgets.FloatLogSlider(value=1, base=scale.base, readout=False, **span, **_row(scale.label))
        self.box = widgets.Text(continuous_update=False, **_box(scale.label))
        super().__init__([self.slider, self.box])
        link((self, "value"), (self.box, "value"))
        self.box.observe(self._follow, "value")
        self.slider.observe(self._write, "value")
        self.value = str(value)

    def _write(self, change: dict) -> None:
        """Write the slider's number into the box. Ignores a browser's report that it rounded the slider to a step."""
        place = self._place_of(change["new"])
        if place != self.place:
            self.box.value = self.stop(self._there(place))
            self.slider.value = self._there(self.place)  # where it stopped, also if that is where it was

    def _follow(self, change: dict) -> None:
        """Move the slider as near as possible to the box's number; if the box has no number, leave it."""
        try:
            number = answers.amount(self.scale.name, change["new"])
        except ValueError:
            return
        self.place = self._place_of(number)
        self.slider.value = self._there(self.place)

    def _place_of(self, number: float) -> int:
        power = math.log(number, self.scale.base) if number > 0 else self.scale.low
        return round((min(max(power, self.scale.low), self.scale.high) - self.scale.low) / self.step)

    def _there(self, place: int) -> float:
        return self.scale.base ** (self.scale.low + place * self.step)


def written(number: float) -> str:
    """A slider's number with three digits, 8.91B; powers of two below a million with all digits, 131,072."""
    exact = number < 10**6 and math.log2(number).is_integer()
    return short_count(number if exact else float(f"{number:.3g}"))


# The ten calculators


@dataclass(frozen=True)
class Spec:
    """A calculator: a pure function, its picture, its inputs, and named states; it starts in the first.

    presets: what each is called -> arguments of `answer`, all of them.
    stop: what to write when an argument's slider is moved to a number, given what is set.
    follow: what else changes with what a person changed, from the inputs before and now.
    """

    name: str
    title: str
    answer: Callable
    draw: Callable
    inputs: tuple
    presets: dict[str, dict]
    stop: Callable[[str, float, dict], str] = lambda name, number, inputs: written(number)
    follow: Callable[[dict, dict], dict] = lambda before, now: {}


def _draw_training(answer: answers.TrainingTime):
    seconds = {answers.short_name(gpu): each for gpu, each in answer.seconds_by_gpu.items()}
    labels = {name: duration(each) for name, each in seconds.items()}
    caption = f"{short_count(answer.gpus)} of that kind, logarithmic"
    return figures.times(seconds, labels, answers.short_name(answer.gpu), caption)


def _draw_storage(answer: answers.Storage):
    return figures.storage(answer.shape, answer.stride, answer.offset, answer.stored)


def _draw_number(answer: answers.StoredNumber):
    near = (answer.below, answer.stored, answer.above)
    size = abs(answer.exact) if isinstance(answer.exact, Fraction) else 0
    return figures.number(
        answer.bits,
        answer.format.exponent,
        tuple(answers.decimal(each) for each in near),
        _place(answer.exact, near),
        answer.limits,
        answer.format.name,
        float(min(size, 10**308)),
    )


def _place(value: Fraction | float, near: tuple) -> float | None:
    """Where a number lies among three that rise: 0 at the first, 2 at the last; None outside, or where one is no number."""
    if not all(isinstance(each, Fraction) for each in (value, *near)) or not near[0] <= value <= near[2]:
        return None
    low, start = (near[0], 0) if value < near[1] else (near[1], 1)
    return start + float((value - low) / (near[start + 1] - low))


def _draw_matmul(answer: answers.Matmul):
    labels = (prefixed(answer.attainable, "FLOP/s", 4), f"ridge: {answer.ridge:,.4g}")
    point = (answer.intensity, answer.attainable)
    return figures.roofline(answer.roofs, answer.bandwidth, answer.precision, point, labels)


def _draw_parameters(answer: answers.Parameters):
    bars = {"yours": answer.parts} | answer.known
    return figures.shares(bars, {name: short_count(sum(parts.values())) for name, parts in bars.items()})


def _stop_of_sizes(name: str, number: float, inputs: dict) -> str:
    """A size that goes with the others, all its digits."""
    if name not in ("width", "heads", "kv_heads"):
        return written(number)
    return f"{answers.slider_stop(name, round(number), inputs):,}"


def _follow_heads(before: dict, now: dict) -> dict:
    """The heads of keys go along with the heads."""
    if now["heads"] == before["heads"] or now["kv_heads"] != before["kv_heads"]:
        return {}
    keys = answers.keys_that_follow(now["heads"], now["kv_heads"], before["heads"])
    return {} if keys is None else {"kv_heads": f"{keys:,}"}


def _draw_memory(answer: answers.Memory):
    names = {stage: f"ZeRO stage {stage}" if stage else "no ZeRO" for stage in answer.by_stage}
    bars = {names[stage]: parts for stage, parts in answer.by_stage.items()}
    ends = {name: byte_size(sum(parts.values())) for name, parts in bars.items()}
    limit = f"{answers.short_name(answer.gpu)}: {byte_size(answer.limit)}"
    return figures.memory(bars, names[answer.stage], answer.limit, limit, ends)


def _draw_scaling(answer: answers.Scaling):
    best = f"best: {short_count(answer.best[0])} × {short_count(answer.best[1])}"
    yours = f"yours: {short_count(answer.parameters)} × {short_count(answer.tokens)}"
    gpt3 = (napkin.parameter_count(MODELS["GPT-3 175B"]), papers.GPT3_TOKENS)
    you = (answer.parameters, answer.tokens)
    return figures.scaling(answer.flops, answer.best, you, answer.ratio, (best, yours), {"GPT-3": gpt3})


def _draw_step_memory(answer: step_answers.StepMemory):
    when, most = answer.peak
    return step_figures.step_memory(answer.moments, f"{byte_size(most)}, {when}")


def _draw_overlap(answer: step_answers.Overlap):
    return step_figures.overlap(answer.backward, answer.buckets, answer.at_once)


def _draw_schedule(answer: step_answers.Schedule):
    return step_figures.schedule(answer.rates, answer.warmup)


def _size(model: str) -> str:
    return f"{napkin.parameter_count(MODELS[model]):,}"


def _run(model: str, tokens: str, gpu: str, gpus: int, mfu: float, price: float) -> dict:
    sizes = {"parameters": _size(model), "tokens": tokens}
    return sizes | {"gpu": gpu, "gpus": f"{gpus:,}", "mfu": mfu, "dollars_per_hour": price}


def _view(shape: str, dtype: str = "float32", transposed: bool = False, start: int = 0, step: int = 1) -> dict:
    return {"shape": shape, "dtype": dtype, "transposed": transposed, "start": start, "step": step}


def _product(m: int, k: int, n: int, gpu: str, precision: str) -> dict:
    return {"m": f"{m:,}", "k": f"{k:,}", "n": f"{n:,}", "gpu": gpu, "precision": precision}


def _shape_of(model: str) -> dict:
    shape = MODELS[model]
    sizes = ("layers", "width", "heads", "kv_heads", "ffn", "vocabulary", "context")
    flags = {"gated": shape.gated, "tied": shape.tied, "positions": shape.learned_positions, "biases": shape.biases}
    return {name: f"{getattr(shape, name):,}" for name in sizes} | flags


def _training(
    model: str, recipe: str, stage: int, gpu: str, gpus: int, batch: int, tokens: int, recompute: str
) -> dict:
    sizes = {"gpus": f"{gpus:,}", "batch": f"{batch:,}", "tokens": f"{tokens:,}"}
    return {"model": model, "recipe": recipe, "stage": stage, "gpu": gpu, **sizes, "recompute": recompute}


def _budget(gpu: str, gpus: int, days: str, mfu: float, ratio: str, model: str) -> dict:
    run = {"gpu": gpu, "gpus": f"{gpus:,}", "days": days, "mfu": mfu}
    return run | {"tokens_per_parameter": ratio, "parameters": _size(model)}


def _step(model: str, batch: int, tokens: int, optimizer: str, checkpointing: str, step: str) -> dict:
    sizes = {"batch": f"{batch:,}", "tokens": f"{tokens:,}"}
    return {"model": model, **sizes, "optimizer": optimizer, "checkpointing": checkpointing, "step": step}


def _network(parameters: str, backward_ms: str, bucket_mb: str, ranks: int, gigabytes_per_second: str) -> dict:
    sizes = {"parameters": parameters, "backward_ms": backward_ms, "bucket_mb": bucket_mb}
    return sizes | {"ranks": f"{ranks:,}", "gigabytes_per_second": gigabytes_per_second}


def _rates(shape: str, peak: str, steps: int, warmup: int, last: float) -> dict:
    return {"shape": shape, "peak": peak, "steps": f"{steps:,}", "warmup": f"{warmup:,}", "last": last}


GPUS = {answers.short_name(name): name for name in answers.with_bf16()}
ANY_PROCESSOR = {answers.short_name(processor.name): processor.name for processor in PROCESSORS}
TRAINS_ON = Choice("gpu", "GPU", GPUS)
FITS_ON = Choice("gpu", "GPU", GPUS | {answers.short_name(each.name): each.name for each in OTHER_GPUS})  # your own too
HOW_MANY = Scale("gpus", "how many", 0, 17, base=2)
MFU = Slide("mfu", "MFU", 0.01, 1, 0.01)

SPECS = (
    Spec(
        "training-time",
        "How long does it train, and what does it cost?",
        answers.training_time,
        _draw_training,
        (
            Scale("parameters", "parameters", 6, 13),
            Scale("tokens", "tokens", 6, 15),
            TRAINS_ON,
            HOW_MANY,
            MFU,
            Slide("dollars_per_hour", "dollars per hour", 0.1, 12, 0.05),
        ),
        {
            "LLaMA-3 8B on 1,024 H100s": _run("LLaMA-3 8B", "15T", H100, 1024, 0.4, 2.5),
            "LLaMA-3 70B on 1,024 H100s": _run("LLaMA-3 70B", "15T", H100, 1024, 0.4, 2.5),
            "GPT-3 on 1,024 A100s": _run("GPT-3 175B", "300B", A100, 1024, 0.4, 1.75),
            "GPT-2 on 8 A100s": _run("GPT-2", "10B", A100, 8, 0.6, 1.75),
            "GPT-2 on an RTX 4090": _run("GPT-2", "2.5B", RTX_4090, 1, 0.4, 0.35),
        },
    ),
    Spec(
        "storage-layout",
        "How does a view lie in memory?",
        answers.storage,
        _draw_storage,
        (
            Typed("shape", "shape"),
            Choice("dtype", "dtype", {name: name for name in napkin.DTYPE_BYTES}),
            Switch("transposed", "last two axes swapped"),
            Slide("start", "start of the slice", 0, 12),
            Slide("step", "step of the slice", 1, 6),
        ),
        {
            "4 × 6, as it was made": _view("4, 6"),
            "transposed": _view("4, 6", transposed=True),
            "every second column": _view("4, 6", step=2),
            "transposed, then every second": _view("4, 6", transposed=True, start=1, step=2),
            "a batch of small pictures": _view("8, 3, 32, 32", "uint8", transposed=True),
            "larger than any memory": _view("1000000, 1000000, 1000", "bfloat16", start=3, step=5),
        },
    ),
    Spec(
        "dtypes",
        "What does a format hold of a number?",
        answers.number,
        _draw_number,
        (
            Typed("typed", "number"),
            Choice("form", "format", {name: name for name in FORMATS}),
        ),
        {
            "0.1 in bf16": {"typed": "0.1", "form": "bf16"},
            "0.1 in fp64": {"typed": "0.1", "form": "fp64"},
            "257 in bf16": {"typed": "257", "form": "bf16"},
            "65,520 in fp16": {"typed": "65520", "form": "fp16"},
            "a small gradient in fp16": {"typed": "3e-7", "form": "fp16"},
            "1e-8 in fp16": {"typed": "1e-8", "form": "fp16"},
            "1,000 in fp8 e4m3": {"typed": "1000", "form": "fp8 e4m3"},
        },
    ),
    Spec(
        "matmul",
        "How fast can a matrix product be?",
        answers.matmul,
        _draw_matmul,
        (
            Scale("m", "m", 0, 17, base=2),
            Scale("k", "k", 0, 17, base=2),
            Scale("n", "n", 0, 17, base=2),
            Choice("gpu", "processor", ANY_PROCESSOR),
            Choice("precision", "precision", {name: name for name in PRECISIONS}),
        ),
        {
            "4,096 cubed, H100, bf16": _product(4096, 4096, 4096, H100, "bf16"),
            "one token, H100, bf16": _product(1, 4096, 4096, H100, "bf16"),
            "one head's scores, H100, bf16": _product(8192, 128, 8192, H100, "bf16"),
            "LLaMA-3 8B's LM head, B200, fp8": _product(8192, 4096, 128_256, B200, "fp8"),
            "512 cubed, a laptop, fp32": _product(512, 512, 512, RYZEN, "fp32"),
        },
    ),
    Spec(
        "parameter-shares",
        "Where are a Transformer's parameters?",
        answers.parameters,
        _draw_parameters,
        (
            Scale("layers", "layers", 0, 8, base=2),
            Scale("width", "width (d_model)", 6, 15, base=2),
            Scale("heads", "heads", 0, 8, base=2),
            Scale("kv_heads", "heads of keys", 0, 8, base=2),
            Scale("ffn", "feed-forward (d_ff)", 6, 17, base=2),
            Scale("vocabulary", "vocabulary", 2, 6),
            Scale("context", "context", 6, 17, base=2),
            Switch("gated", "gated feed-forward"),
            Switch("tied", "tied LM head"),
            Switch("positions", "learned positions"),
            Switch("biases", "biases"),
        ),
        {model: _shape_of(model) for model in MODELS},
        stop=_stop_of_sizes,
        follow=_follow_heads,
    ),
    Spec(
        "memory-budget",
        "Does the training fit?",
        answers.memory,
        _draw_memory,
        (
            Choice("model", "model", {name: name for name in MODELS}),
            Choice("recipe", "precision and optimizer", {name: name for name in napkin.RECIPES}),
            Choice("stage", "ZeRO", {"no ZeRO": 0, "stage 1": 1, "stage 2": 2, "stage 3": 3}),
            FITS_ON,
            HOW_MANY,
            Scale("batch", "sequences on each GPU", 0, 10, base=2),
            Scale("tokens", "tokens in each", 6, 17, base=2),
            Choice("recompute", "recomputed", {name: name for name in answers.RECOMPUTE}),
        ),
        {
            "LLaMA-3 8B on 8 H100s": _training("LLaMA-3 8B", "mixed adamw", 1, H100, 8, 1, 8192, "selective"),
            "and all of it sharded": _training("LLaMA-3 8B", "mixed adamw", 3, H100, 8, 1, 8192, "selective"),
            "LLaMA-3 70B on 1,024 H100s": _training("LLaMA-3 70B", "mixed adamw", 3, H100, 1024, 1, 8192, "full"),
            "LLaMA-2 7B in fp32 on an A100": _training("LLaMA-2 7B", "fp32 adamw", 0, A100, 1, 1, 2048, "none"),
            "GPT-2 on an RTX 4090": _training("GPT-2", "autocast", 0, RTX_4090, 1, 8, 1024, "selective"),
            "GPT-2 on an RTX 4060 of 8 GB": _training("GPT-2", "autocast", 0, RTX_4060, 1, 8, 1024, "selective"),
            "GPT-3 on one H200": _training("GPT-3 175B", "mixed adamw", 0, H200, 1, 1, 2048, "full"),
        },
    ),
    Spec(
        "n-against-d",
        "How large a model, on how many tokens?",
        answers.scaling,
        _draw_scaling,
        (
            TRAINS_ON,
            HOW_MANY,
            Scale("days", "days", -1, 4),
            MFU,
            Scale("tokens_per_parameter", "tokens a parameter", -1, 5),
            Scale("parameters", "your parameters", 6, 13),
        ),
        {
            "32 H100s for two weeks": _budget(H100, 32, "14", 0.5, "20", "LLaMA-3 8B"),
            "1,024 H100s for 90 days": _budget(H100, 1024, "90", 0.4, "20", "LLaMA-3 70B"),
            "one RTX 4090 for a weekend": _budget(RTX_4090, 1, "2", 0.4, "20", "GPT-2"),
            "as many tokens as LLaMA-3 8B saw": _budget(H100, 1024, "16.5", 0.5, "1,868", "LLaMA-3 8B"),
        },
    ),
    Spec(
        "step-memory",
        "How much memory does each moment of a step take?",
        step_answers.step_memory,
        _draw_step_memory,
        (
            Choice("model", "model, fp32", {name: name for name in step_answers.GPTS}),
            Scale("batch", "sequences", 0, 8, base=2),
            Scale("tokens", "tokens in each", 6, 13, base=2),
            Choice("optimizer", "optimizer", {name: name for name in step_answers.STATE}),
            Choice("checkpointing", "checkpointing", {name: name for name in step_answers.CHECKPOINTING}),
            Choice("step", "step", {"the first": "first", "the second": "second"}),
        ),
        {
            "GPT-2, the second step": _step("GPT-2", 8, 1024, "AdamW", "none", "second"),
            "GPT-2, the first step": _step("GPT-2", 8, 1024, "AdamW", "none", "first"),
            "GPT-2, every layer checkpointed": _step("GPT-2", 8, 1024, "AdamW", "every layer", "second"),
            "GPT-2 with plain SGD": _step("GPT-2", 8, 1024, "SGD", "none", "second"),
            "GPT-2 XL, one sequence": _step("GPT-2 XL", 1, 1024, "AdamW", "none", "second"),
        },
    ),
    Spec(
        "overlap",
        "How much of the communication is hidden behind backward?",
        step_answers.overlap,
        _draw_overlap,
        (
            Scale("parameters", "parameters", 6, 11),
            Scale("backward_ms", "backward, ms", 0, 4),
            Scale("bucket_mb", "bucket, MB", 0, 5),
            Scale("ranks", "ranks", 0, 10, base=2),
            Scale("gigabytes_per_second", "network, GB/s", -1, 3),
        ),
        {
            "1.3B on 8 ranks, 100 GB/s": _network("1.3B", "150", "25", 8, "100"),
            "the same at 25 GB/s": _network("1.3B", "150", "25", 8, "25"),
            "GPT-2 over 1 GB/s Ethernet": _network("124M", "60", "25", 8, "1"),
            "one bucket for all": _network("1.3B", "150", "10,000", 8, "100"),
            "tiny buckets": _network("1.3B", "150", "1", 64, "100"),
        },
    ),
    Spec(
        "schedule",
        "What is the learning rate at each step?",
        step_answers.schedule,
        _draw_schedule,
        (
            Choice("shape", "after the warm-up", {name: name for name in step_answers.SHAPES}),
            Scale("peak", "peak", -6, 0),
            Scale("steps", "steps", 2, 6),
            Typed("warmup", "warm-up steps"),
            Slide("last", "at the end, of the peak", 0, 1, 0.01),
        ),
        {
            "warm-up, then cosine to a tenth": _rates("cosine", "3e-4", 10_000, 500, 0.1),
            "linear to zero": _rates("linear", "3e-4", 10_000, 500, 0.0),
            "constant after the warm-up": _rates("constant", "3e-4", 10_000, 500, 1.0),
            "constant, down in the last fifth": _rates("constant, then down", "3e-4", 10_000, 500, 0.0),
            "cosine without warm-up": _rates("cosine", "3e-4", 10_000, 0, 0.0),
        },
    ),
)
CALCULATORS = {spec.name: spec for spec in SPECS}


# Their states, without and with sliders


@dataclass(frozen=True)
class State:
    """A calculator as it was set: words, the answer first; figure None where the words say why there is no answer."""

    calculator: str
    name: str
    inputs: dict
    words: tuple[str, ...]
    figure: object | None


def find(name: str) -> Spec:
    """The calculator with that name. Raises LookupError, with all names, for another."""
    if name not in CALCULATORS:
        raise LookupError(f"no calculator {name!r}: one of {', '.join(CALCULATORS)}")
    return CALCULATORS[name]


def state(calculator: str, inputs: dict, name: str = OWN) -> State:
    """The answer and the picture for `inputs`, all of its arguments; for invalid inputs, the reason in words."""
    spec = find(calculator)
    try:
        answer = spec.answer(**inputs)
    except (ValueError, LookupError) as error:
        return State(calculator, name, inputs, (f"No answer: {error.args[0]}",), None)
    return State(calculator, name, inputs, answer.words, spec.draw(answer))


def states(calculator: str) -> list[State]:
    """The calculator's named states, in order; it starts in the first."""
    return [state(calculator, inputs, name) for name, inputs in find(calculator).presets.items()]


def answer_html(words: tuple[str, ...]) -> str:
    """The words of an answer: the result in bold, then the rest."""
    first, *rest = (html.escape(line) for line in words)
    return f"<p><strong>{first}</strong></p>" + (f"<p>{'<br>'.join(rest)}</p>" if rest else "")


def picture_html(shown: State) -> str:
    """The picture as an inline image, "" if there is none."""
    if shown.figure is None:
        return ""
    png, size = io.BytesIO(), shown.figure.get_size_inches() * shown.figure.dpi
    shown.figure.savefig(png, format="png")
    alt = html.escape(f"{find(shown.calculator).title} {' '.join(shown.words)}")
    data = base64.b64encode(png.getvalue()).decode()
    return (
        f'<img alt="{alt}" width="{size[0]:.0f}" style="max-width: 100%" decoding="sync" '
        f'src="data:image/png;base64,{data}">'
    )


class Calculator(widgets.VBox):
    """The sliders, and below them the answer and its picture, updated after every change."""

    def __init__(self, name: str):
        self.spec = find(name)
        first, inputs = next(iter(self.spec.presets.items()))
        self.preset = widgets.Dropdown(options=[*self.spec.presets, OWN], value=first, **_row("start from"))
        self.controls = {each.name: each.control(inputs[each.name]) for each in self.spec.inputs}
        self.answer, self.picture = widgets.HTML(), widgets.HTML()
        self.setting = False
        self._tell()
        self.preset.observe(self._start_from, "value")
        for control in self.controls.values():
            control.observe(self._changed, "value")
            if isinstance(control, ScaleControl):
                control.stop = lambda number, name=control.scale.name: self.spec.stop(name, number, self.inputs)
        for argument, control in self.controls.items():
            _mark(control, "calculator-input", f"input-{argument}")
        title = widgets.HTML(f"<strong>{html.escape(self.spec.title)}</strong>")
        super().__init__(
            [
                title,
                _mark(self.preset, "calculator-preset"),
                *self.controls.values(),
                _mark(self.answer, "calculator-answer"),
                _mark(self.picture, "calculator-picture"),
            ],
            layout=widgets.Layout(max_width="760px"),
        )
        _mark(self, "calculator", f"calculator-{name}")

    @property
    def inputs(self) -> dict:
        """The current inputs, without a browser's rounding."""
        values = {name: control.value for name, control in self.controls.items()}
        return {name: round(value, 9) if isinstance(value, float) else value for name, value in values.items()}

    def _start_from(self, change: dict) -> None:
        if change["new"] == OWN:
            return
        self._set(self.spec.presets[change["new"]])
        self._tell()

    def _set(self, inputs: dict) -> None:
        """Set all inputs without computing an answer in between."""
        self.setting = True
        for name, value in inputs.items():
            self.controls[name].value = value
        self.setting = False

    def _changed(self, change: dict) -> None:
        if self.setting or self.inputs == self.shown.inputs:
            return
        self._set(self.spec.follow(self.shown.inputs, self.inputs))
        self.preset.value = OWN
        self._tell()

    def _tell(self) -> None:
        self.shown = state(self.spec.name, self.inputs, self.preset.value)
        self.answer.value, self.picture.value = answer_html(self.shown.words), picture_html(self.shown)

    def _repr_mimebundle_(self, **kwargs) -> dict:
        """For pages and programs that show no widgets: the state as HTML, and as words."""
        title = html.escape(f"{self.spec.title} {self.shown.name}")
        page = (
            f'<div class="calculator calculator-{self.spec.name}"><p>{title}</p>'
            f'<div class="calculator-answer">{self.answer.value}</div>'
            f'<div class="calculator-picture">{self.picture.value}</div><p><small>{NOTE}</small></p></div>'
        )
        bundle = super()._repr_mimebundle_(**kwargs)
        return bundle | {"text/html": page, "text/plain": "\n".join((self.spec.title, *self.shown.words))}


def _mark(widget: widgets.DOMWidget, *classes: str) -> widgets.DOMWidget:
    for name in classes:
        widget.add_class(name)
    return widget


def show(name: str) -> Calculator:
    """The calculator of that name, to be the last line of a cell. LookupError, with all names, for another."""
    return Calculator(name)
