"""What each calculator answers, against a witness that shares no line with it: torch, models on meta, the memory model, the
loop's schedule, napkin's formulas.

WITNESSES has one for each calculator: from its inputs as torch and napkin take them, what some fields of its answer must be,
or ValueError or LookupError where there is no answer. They are asked over each calculator's named states and over inputs
drawn from its sliders and lists. A new calculator needs its line there, and a new row is drawn with the others.
"""

import json
import math
import random
import re
import struct
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from utils import facts, models, napkin
from utils.figures import numbers
from utils.loop import Config
from utils.loop.optim import lr_factor
from utils.measure import count_flops
from utils.measure.dry_run import Plan
from utils.measure.memory_model import predict_gpt
from utils.napkin import calculators
from utils.napkin.calculators import NAMES, answer, description, evaluate

FULL_NAME = {calculators.short_name(processor.name): processor.name for processor in facts.PROCESSORS}
TYPED = {  # what is typed where there is no slider
    "shape": ("4, 6", "5", "", "2, 3, 4", "(7, 1, 2)", "torch.Size([3, 5])", "1 8", "6x1", "4 × 6", "300000, 400000"),
    "typed": (
        *("0", "-0", "1", "0.1", "-0.3", "257", "65504", "65519.99", "65520", "448", "464", "465", "-480", "61440"),
        *("3e-7", "1e-8", "2.9802322387695312e-8", "1e-45", "5e-324", "1e-400", "1e400", "1.7976931348623157e308"),
        *("inf", "-inf", "nan", "3.4028235677973366e38", "0.000123", "1234567.891", "-2.5"),
    ),
    "warmup": ("0", "1", "7", "500"),
}
DRAWS = 60  # of each calculator
quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)
SATURATES = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13)


def first(name: str) -> dict:
    """The inputs of a calculator's first state."""
    return next(iter(description(name)["presets"].values()))


def ask(name: str, **changes) -> dict:
    """The answer for the first state, changed."""
    given = answer(name, first(name) | changes)
    assert not given.get("refused"), given["words"]
    return given


def refusal(name: str, **changes) -> str:
    """The reason why there is no answer for the first state, changed."""
    given = answer(name, first(name) | changes)
    assert given.get("refused") and len(given["words"]) == 1, given["words"]
    return given["words"][0].removeprefix("No answer: ")


def number_of(text: str) -> float:
    """What a person means by 8.03B or 1,024."""
    power = {"k": 3, "M": 6, "B": 9, "T": 12}.get(text[-1], 0)
    return float(text.replace(",", "").rstrip("kMBT")) * 10**power


# The witnesses


def training_time(parameters, tokens, gpu, gpus, mfu, dollars_per_hour) -> dict:
    flops = napkin.training_flops_6nd(parameters, tokens)

    def seconds_on(name: str) -> float:
        return napkin.training_seconds(flops, gpus, facts.peak_flops(FULL_NAME[name], "bf16"), mfu)

    seconds = seconds_on(gpu)
    have_bf16 = {calculators.short_name(each.name) for each in facts.PROCESSORS if "bf16" in each.flops}
    return {
        "flops": flops,
        "seconds": seconds,
        "dollars": napkin.cost_dollars(seconds, gpus, dollars_per_hour),
        "secondsByGpu": {name: seconds_on(name) for name in have_bf16},
    }


def storage_layout(shape, dtype, transposed, start, step) -> dict:
    text = shape.removeprefix("torch.Size").strip("([])").replace(",", " ").replace("x", " ").replace("×", " ")
    sizes = [int(size) for size in text.split()]
    if (transposed and len(sizes) < 2) or (not sizes and (start, step) != (0, 1)):
        raise ValueError("torch has no such view")
    tensor = torch.empty(sizes, dtype=getattr(torch, dtype), device="meta")
    view = tensor.mT if transposed else tensor
    view = view[..., start::step] if sizes else view
    if not view.numel():
        raise ValueError("nothing is left")
    return {
        "shape": list(view.shape),
        "stride": list(view.stride()),
        "offset": view.storage_offset(),
        "contiguous": view.is_contiguous(),
        "nominalBytes": view.nbytes,
        "storedBytes": tensor.untyped_storage().nbytes(),
    }


def dtypes(typed, form) -> dict:
    value, dtype = float(typed), getattr(torch, facts.FORMATS[form].dtype)
    if form == "tf32":
        (code,) = struct.unpack("<I", torch.tensor([value], dtype=torch.float32).numpy().tobytes())
        bits = f"{code:032b}"[:19]
    else:
        tensor = torch.tensor([value], dtype=torch.float64).to(dtype)
        bits = "".join(f"{byte:08b}" for byte in reversed(tensor.view(torch.uint8).tolist()))
    if form == "fp8 e4m3" and not SATURATES and abs(value) > 464:
        return {}
    info, is_tf32 = torch.finfo(dtype), form == "tf32"
    eps = 2.0**-10 if is_tf32 else info.eps
    largest = info.max if not is_tf32 else (2 - eps) * 2.0**127
    return {"bits": bits, "limits": [info.smallest_normal * eps, info.smallest_normal, largest]}


def matmul(m, k, n, gpu, precision) -> dict:
    processor = facts.find_processor(FULL_NAME[gpu])
    peak = facts.peak_flops(processor.name, precision)
    stored = {"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32, "fp8": torch.float8_e4m3fn}
    factors = [
        torch.empty(shape, dtype=stored.get(precision, torch.bfloat16), device="meta") for shape in ((m, k), (k, n))
    ]
    out = torch.empty((m, n), dtype=factors[0].dtype, device="meta")
    flops, nbytes = (
        count_flops(torch.matmul, *(each.float() for each in factors)),
        sum(each.nbytes for each in (*factors, out)),
    )
    intensity = napkin.arithmetic_intensity(flops, nbytes)
    attainable = napkin.attainable_flops(intensity, peak, processor.bandwidth)
    ridge = napkin.ridge_intensity(peak, processor.bandwidth)
    return {
        "flops": flops,
        "bytes": nbytes,
        "intensity": intensity,
        "ridge": ridge,
        "attainable": attainable,
        "seconds": flops / attainable,
        "roofs": processor.flops,
    }


def parameter_shares(gated, tied, positions, biases, **sizes) -> dict:
    flags = {"gated": gated, "tied": tied, "learned_positions": positions, "biases": biases, "norm_biases": biases}
    return {"parts": napkin.parameter_parts(facts.ModelShape("yours", **sizes, **flags, source=""))}


def memory_budget(model, recipe, stage, gpu, gpus, batch, tokens, recompute) -> dict:
    shape = facts.MODELS[model]
    sixteen_bits = napkin.RECIPES[recipe]["weights"] == 2 or "bf16 copies" in napkin.RECIPES[recipe]

    def layer(how: str) -> int:
        if sixteen_bits:
            return napkin.korthikanti_bytes_per_layer(tokens, batch, shape.width, shape.heads, recompute=how)
        if how == "full":
            return napkin.tensor_bytes((batch, tokens, shape.width), "float32")
        return napkin.activation_bytes(
            batch, tokens, shape.width, shape.heads, {"none": "plain", "selective": "flash"}[how]
        )

    again = layer("none") if recompute == "full" else 0
    rest = {
        "activations": shape.layers * layer(recompute) + again,
        "logits": 3 * torch.empty(batch, tokens, shape.vocabulary, device="meta").nbytes,
    }

    def on_each(number: int) -> dict[str, int]:
        state = napkin.state_parts(napkin.parameter_count(shape), recipe, gpus, number)
        weights = state.pop("weights") + state.pop("bf16 copies", 0)
        return {"weights": weights, "gradients": state.pop("gradients"), "optimizer state": sum(state.values())} | rest

    return {
        "byStage": [on_each(number) for number in range(4)],
        "stage": ("no ZeRO", "stage 1", "stage 2", "stage 3").index(stage),
        "limit": facts.memory_size(FULL_NAME[gpu]),
    }


def n_against_d(gpu, gpus, days, mfu, tokens_per_parameter, parameters) -> dict:
    flops = napkin.compute_budget(days * napkin.DAY, gpus, facts.peak_flops(FULL_NAME[gpu], "bf16"), mfu)
    tokens = flops / napkin.training_flops_6nd(parameters, 1)
    return {
        "flops": flops,
        "best": list(napkin.chinchilla_optimal(flops, tokens_per_parameter)),
        "yours": [parameters, tokens],
    }


def step_memory(model, batch, tokens, optimizer, checkpointing, step) -> dict:
    """To 1 %, by the model that counts every tensor: of AdamW and plain SGD, nothing checkpointed, GPT-2 itself."""
    known, shape = {"AdamW": "adamw", "SGD": "sgd"}, facts.MODELS[model]
    if model != "GPT-2" or optimizer not in known or checkpointing != "none" or tokens > shape.context:
        return {}
    sizes = {name: getattr(shape, name) for name in ("vocabulary", "context", "width", "heads", "layers")}
    plan = Plan(known[optimizer], implementation="foreach")  # as on a GPU by default
    phases = predict_gpt(**sizes, batch=batch, tokens=tokens, plan=plan).phases
    peaks = [max(phases[f"{what} {number}"].peak for what in ("backward", "update")) for number in (1, 2)]
    peak, other = peaks if step == "the first" else reversed(peaks)
    return {"peak": pytest.approx(peak, rel=0.01), "otherPeak": pytest.approx(other, rel=0.01)}


def overlap(parameters, backward_ms, bucket_mb, ranks, gigabytes_per_second) -> dict:
    """In closed form: the network ends when, after some bucket was ready, it and all later ones have been sent."""
    total, bucket = 4 * parameters, bucket_mb * 1e6
    ends = [min((n + 1) * bucket, total) for n in range(math.ceil(total / bucket))]
    if len(ends) > 10_000:
        raise ValueError("too many buckets")
    step = 2 * (ranks - 1)
    times = [
        step * ((end - begin) / ranks / (gigabytes_per_second * 1e9) + 5e-6)
        for begin, end in zip([0, *ends], ends, strict=False)
    ]
    later, end = 0.0, backward_ms / 1e3
    for ready, time in zip(reversed(ends), reversed(times), strict=True):
        later += time
        end = max(end, backward_ms / 1e3 * ready / total + later)
    at_once = backward_ms / 1e3 + step * (total / ranks / (gigabytes_per_second * 1e9) + 5e-6)
    return {"end": end, "atOnce": at_once}


def schedule(shape, peak, steps, warmup, last) -> dict:
    warmup = int(warmup)
    if warmup >= steps:
        raise ValueError("warm-up without an end")
    if shape in ("cosine", "constant"):
        config = Config(steps=steps, lr=peak, warmup=warmup, schedule=shape, final_lr=last)
        return {"rates": [peak * lr_factor(config, step) for step in range(steps)]}
    falls = max(warmup, 0.8 * steps) if shape == "constant, then down" and warmup <= 0.8 * steps else warmup
    corners = {-1: 0, warmup - 1: 1, warmup: 1, falls: 1, steps: last} if warmup else {0: 1, falls: 1, steps: last}
    rates = [peak * line(list(corners), list(corners.values()), step) for step in range(steps)]
    return {"rates": rates}


def line(xs: list[float], ys: list[float], x: float) -> float:
    """The height at x of the line through some points, xs rising."""
    for x0, x1, y0, y1 in zip(xs, xs[1:], ys, ys[1:], strict=False):
        if x0 <= x <= x1:
            return y0 if x0 == x1 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    raise ValueError(f"{x} is outside {xs}")


WITNESSES = {
    "training-time": training_time,
    "storage-layout": storage_layout,
    "dtypes": dtypes,
    "matmul": matmul,
    "parameter-shares": parameter_shares,
    "memory-budget": memory_budget,
    "n-against-d": n_against_d,
    "step-memory": step_memory,
    "overlap": overlap,
    "schedule": schedule,
}


def drawn(control: dict, rng: random.Random) -> object:
    """What a person could set there."""
    if control["kind"] in ("count", "amount"):
        number = control["base"] ** rng.uniform(control["low"], control["high"])
        if control["kind"] == "amount":
            return f"{number:.3g}"
        number = 2 ** rng.randint(control["low"], control["high"]) if control["base"] == 2 else round(number)
        return f"{min(number, 2_000) if control['name'] == 'steps' else number:,}"
    if control["kind"] == "slide":
        steps = round((control["high"] - control["low"]) / control["step"])
        return round(control["low"] + control["step"] * rng.randint(0, steps), 9)
    if control["kind"] == "choice":
        return rng.choice(control["options"])
    return rng.random() < 0.5 if control["kind"] == "toggle" else rng.choice(TYPED[control["name"]])


def as_read(control: dict, value: object) -> object:
    """What was set, as torch and napkin take it."""
    if control["kind"] == "count":
        return round(number_of(value))
    return number_of(value) if control["kind"] == "amount" else value


def cases(name: str) -> list[dict]:
    rng, controls = random.Random(name), description(name)["inputs"]
    draws = [{each["name"]: drawn(each, rng) for each in controls} for _ in range(DRAWS)]
    return [*description(name)["presets"].values(), *draws]


def same(got: object, expected: object) -> bool:
    if isinstance(expected, dict):
        return got.keys() == expected.keys() and all(same(got[key], each) for key, each in expected.items())
    if isinstance(expected, list):
        return len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(expected, float):
        return math.isclose(got, expected, rel_tol=1e-9)
    return got == expected or (isinstance(expected, int) and expected > 2**53 and math.isclose(got, expected))


@pytest.mark.parametrize("name", NAMES)
def test_it_answers_what_its_witness_says(name):
    controls, asked = {each["name"]: each for each in description(name)["inputs"]}, 0
    for inputs in cases(name):
        given = answer(name, inputs)
        try:
            expected = WITNESSES[name](**{key: as_read(controls[key], value) for key, value in inputs.items()})
        except (ValueError, LookupError):
            assert given.get("refused"), (inputs, given["words"])
            continue
        assert not given.get("refused"), (inputs, given["words"])
        for field, value in expected.items():
            assert same(given[field], value), (inputs, field, given[field], value)
        asked += bool(expected)
    assert asked >= 8, "too few have an answer that was compared"


def test_every_calculator_has_a_witness():
    assert WITNESSES.keys() == set(NAMES)


# What is typed


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("8B", 8 * 10**9), ("8.03b", 8_030_000_000), ("15 T", 15 * 10**12), ("1,024", 1024), ("8_000", 8000),
        ("1e9", 10**9), (".5k", 500), ("1e30", 10**30), (12.0, 12), (7, 7),
    ],
)  # fmt: skip
def test_counts_are_read_as_people_write_them(text, number):
    assert ask("training-time", parameters=text, tokens=1)["flops"] == pytest.approx(6 * number, rel=1e-15)


@pytest.mark.parametrize(
    "text", ["1,5", "1,02", "eight", "8BB", "0x10", "1e", "--1", "1e9999999", "9" * 500, "٣", True, None]
)
def test_what_is_no_number_is_refused_in_words(text):
    words = refusal("training-time", parameters=text)
    assert words.startswith("parameters: ") and len(words) < 200


def test_an_empty_box_a_negative_and_a_huge_number_are_told_apart():
    said = [refusal("n-against-d", days=text) for text in ("", "  ", "-4", "0", "1e40", "1e-40")]
    assert said[0] == said[1] == "days is empty. Write a number, such as 8B, 0.5 or 1,024."
    assert said[2] == "days: “-4” is not above zero. Give more than 0." and "“0” is not above zero" in said[3]
    assert "beyond 1e30" in said[4] and "closer to zero than 1e-30" in said[5]
    assert (
        refusal("training-time", gpus="2.5") == "number of GPUs: “2.5” is no whole number above zero. Give 1 or more."
    )
    assert "is none of A100, " in refusal("training-time", gpu="TPU")


# How numbers are written


@quick
@given(number=st.one_of(st.floats(0, 1e25), st.floats(0, 1e-3), st.integers(0, 10**12)), digits=st.integers(3, 4))
def test_numbers_are_written_as_in_the_pictures_of_the_lectures(number, digits):
    """But for a number half way between two, which Python rounds to even."""
    for written, shown in (
        (numbers.duration(number), f"duration({number!r})"),
        (numbers.prefixed(number, "B/s", digits), f"prefixed({number!r}, 'B/s', {digits})"),
        (numbers.significant(number, digits), f"significant({number!r}, {digits})"),
    ):
        assert evaluate(shown) == written or str(number * 1000).rstrip("0").endswith("5"), shown


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("byteSize(0)", "0 B"), ("byteSize(999.6)", "1,000 B"), ("byteSize(1500)", "1.5 kB"),
        ("byteSize(999960)", "1.0 MB"), ("byteSize(16e9)", "16.0 GB"), ("byteSize(1e24)", "1e+06 EB"),
        ("shortCount(0)", "0"), ("shortCount(1024)", "1,024"), ("shortCount(999.6)", "1,000"),
        ("shortCount(999999.7)", "1M"), ("shortCount(8030261248)", "8.03B"), ("shortCount(999.6e12)", "1e+15"),
        ("shortCount(0.125)", "0.125"), ("whole(10n ** 21n)", "1,000,000,000,000,000,000,000"),
        ("[0.5, 1.2589, 1024, 131072, 7943282347].map(written).join()", "0.5,1.26,1,024,131,072,7.94B"),
    ],
)  # fmt: skip
def test_bytes_and_counts_are_written_short(expression, shown):
    assert evaluate(expression) == shown


# 1. Training time: the worked numbers of lecture 00


def test_the_famous_88_days_are_144():
    given = ask(
        "training-time", parameters="70B", tokens="15T", gpu="H100", gpus="1,024", mfu=0.5, dollars_per_hour=2.5
    )
    assert given["flops"] == 63e23 and round(given["seconds"] / napkin.DAY, 2) == 143.93
    by_hand = 63e23 / (1024 * 989.5e12 * 0.5) / 3600  # hours
    assert given["hours"] == pytest.approx(1024 * by_hand, rel=1e-12)
    assert given["words"][0] == f"143.9 days, {2.5 * 1024 * by_hand:,.0f} dollars"


def test_gpt_2_for_20_dollars_in_90_minutes():
    run = {"parameters": "124,439,808", "tokens": "10B", "gpu": "A100", "gpus": 8, "mfu": 0.6, "dollars_per_hour": 1.75}
    given = ask("training-time", **run)
    assert (round(given["seconds"] / 60), round(given["dollars"])) == (83, 19)
    assert "6 × 124M parameters × 10B tokens = 7.466e+18 FLOPs." in given["words"]


# 2. Storage


def test_the_code_that_it_shows_makes_that_view():
    given = ask("storage-layout", shape="4, 6", dtype="int16", transposed=True, start=1, step=2)
    made = eval(given["code"], {"torch": torch})
    assert (made.dtype, made.shape, made.stride(), made.storage_offset()) == (torch.int16, (6, 2), (1, 12), 6)
    assert given["code"] in given["words"][-1]


@pytest.mark.parametrize("text", ["4, 6", "(4, 6)", "[4, 6]", "torch.Size([4, 6])", "4x6", "4 × 6", "4 6", "4,6,"])
def test_shapes_are_read_as_people_write_them(text):
    assert ask("storage-layout", shape=text)["shape"] == [4, 6]


def test_the_words_tell_a_copy_from_none():
    assert "nothing is copied" in ask("storage-layout")["words"][2]
    assert "make a storage of its own of 96 B" in ask("storage-layout", transposed=True)["words"][2]
    assert "reads 12 of 24 stored elements" in ask("storage-layout", step=2)["words"][1]


@pytest.mark.parametrize("text", ["no", "4, 0", "4, -1", "4; 6", "2.5", "1e30, 1e30", "1 " * 9, "4,,6.5"])
def test_what_is_no_shape_is_refused(text):
    refusal("storage-layout", shape=text)


# 3. Number formats: torch's conversion, exact fractions

DTYPES = {name: getattr(torch, form.dtype) for name, form in facts.FORMATS.items() if name != "tf32"}


@quick
@given(
    value=st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.floats(-500, 500),
        st.floats(-1e-4, 1e-4),
        st.builds(lambda n, p: math.ldexp(n, p), st.integers(-5000, 5000), st.integers(-160, 120)),
    ),
    name=st.sampled_from(tuple(facts.FORMATS)),
)
def test_bits_are_those_that_torch_stores(value, name):
    given, expected = ask("dtypes", typed=repr(value), form=name), dtypes(repr(value), name)
    assert not expected or given["bits"] == expected["bits"]
    if name == "fp8 e4m3" and abs(value) > 464:
        assert abs(float(given["near"][1])) == 448 and "Overflow without an infinity" in given["words"][1]
    elif name in DTYPES:
        assert float(given["near"][1]) == torch.tensor([value], dtype=torch.float64).to(DTYPES[name]).double().item()


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8 e4m3", "fp8 e5m2"])
def test_neighbours_are_the_next_of_all_numbers_of_the_format(name):
    width = torch.uint8 if DTYPES[name].itemsize == 1 else torch.int16
    codes = torch.arange(2 ** (8 * DTYPES[name].itemsize)).to(width)
    stored = sorted({each for each in codes.view(DTYPES[name]).double().tolist() if math.isfinite(each)})
    for place in (1, len(stored) // 3, len(stored) // 2, len(stored) - 2):
        near = ask("dtypes", typed=repr(stored[place]), form=name)["near"]
        assert list(map(float, near)) == stored[place - 1 : place + 2]
    above = float(ask("dtypes", typed=repr(stored[-1]), form=name)["near"][2])
    assert math.isnan(above) if name == "fp8 e4m3" else above == math.inf


@quick
@given(value=st.fractions(max_denominator=10**9).filter(bool), name=st.sampled_from(["fp64", "fp32", "fp16", "bf16"]))
def test_the_error_is_that_of_exact_fractions(value, name):
    given = ask("dtypes", typed=f"{value.numerator}/{value.denominator}", form=name)
    stored = float(given["near"][1])
    if not math.isfinite(stored):
        assert "Overflow" in given["words"][1]
        return
    error = Fraction(stored) - value
    if not error:
        assert given["words"][1] == "Exactly what was typed: no error."
        return
    told, relative = re.match(r"Error (\S+), (\S+) % of the number", given["words"][1]).groups()
    assert float(told) == pytest.approx(float(error), rel=0.006)
    assert float(relative) == pytest.approx(float(100 * abs(error / value)), rel=0.006)


def test_the_error_of_fp64_and_of_what_no_double_holds():
    assert ask("dtypes", typed="0.1", form="fp16")["words"][:2] == [
        "fp16 holds 0.0999755859375", "Error -2.44e-05, 0.0244 % of the number.",
    ]  # fmt: skip
    assert ask("dtypes", typed="0.1", form="fp64")["words"][1].startswith("Error 5.55e-18, ")
    assert ask("dtypes", typed="1e-400", form="fp64")["words"][1].startswith("Error -1e-400, 100 % of the number.")
    assert "fp64 holds 0.10000000000000001…" in ask("dtypes", typed="0.1", form="fp64")["words"]


def test_the_words_name_what_happened():
    def said(typed: str, form: str, line: int) -> str:
        return ask("dtypes", typed=typed, form=form)["words"][line]

    assert "underflow" in said("1e-8", "fp16", 1) and "underflow" in said("1e-400", "fp64", 1)
    assert "Overflow" in said("65520", "fp16", 1) and said("65519", "fp16", 0) == "fp16 holds 65504"
    assert "Overflow" in said("1e400", "fp64", 1) and "no infinity" in said("-inf", "fp8 e4m3", 1)
    assert "not even itself" in said("nan", "bf16", 1) and said("nan", "bf16", 0) == "bf16 holds nan"
    assert "subnormal: +0.0000000101₂ × 2^-14" in said("3e-7", "fp16", 2)
    assert "normal: −1.0000000₂ × 2^8" in said("-257", "bf16", 2)
    assert "0 10000111 0000000 (sign, exponent, mantissa)" in said("257", "bf16", 2)


@pytest.mark.parametrize("text", ["", "one", "1/0", "1e401", "1e-99999", "0x1p3", "1,5", "--1", "9" * 200])
def test_what_is_no_number_in_any_format_is_refused(text):
    refusal("dtypes", typed=text)


# 4. Matmul


def test_a_large_product_is_bound_by_arithmetic_and_a_thin_one_by_memory():
    large, thin = ask("matmul", m=4096, k=4096, n=4096), ask("matmul", m=1, k=4096, n=4096)
    assert large["words"][0] == "139 µs at best, bound by arithmetic" and "100 % of the peak" in large["words"][3]
    assert thin["words"][0].endswith("bound by memory")
    elsewhere = napkin.matmul_flops(4096, 4096, 4096) / facts.peak_flops(FULL_NAME["A100"], "fp32")
    assert f"A100 {1000 * elsewhere:.2f} ms in fp32" in large["words"][4] and "H100 " in large["words"][4]


def test_a_processor_without_the_precision_says_so():
    words = refusal("matmul", gpu="A100", precision="fp8")
    assert words == "A100 has no fp8 units. Choose among fp64, fp32, tf32, bf16, fp16."


# 5. Parameters: models on meta


def set_to(shape) -> dict:
    sizes = ("layers", "width", "heads", "kv_heads", "ffn", "vocabulary", "context")
    flags = {"gated": shape.gated, "tied": shape.tied, "positions": shape.learned_positions, "biases": shape.biases}
    return {name: getattr(shape, name) for name in sizes} | flags


def counted(shape) -> dict[str, int]:
    """By the names in a model on meta, part by part."""
    parts = dict.fromkeys(("embedding", "positions", "attention", "ffn", "norms", "head"), 0)
    words = {"tokens": "embedding", "positions": "positions", "norm": "norms", "head": "head"}
    words |= {"qkv": "attention", "out": "attention", "q": "attention", "k": "attention", "v": "attention"}
    words |= {"feed": "ffn", "gate": "ffn", "up": "ffn", "down": "ffn", "norm_1": "norms", "norm_2": "norms"}
    for name, parameter in models.build(shape).named_parameters():
        pieces = name.split(".")
        parts[words[pieces[2] if pieces[0] == "blocks" else pieces[0]]] += parameter.numel()
    return parts


@pytest.mark.parametrize("model", facts.MODELS)
def test_the_parts_are_those_of_a_model_on_meta(model):
    given = answer("parameter-shares", description("parameter-shares")["presets"][model])
    assert given["parts"] == counted(facts.MODELS[model]) and f"That is {model}, to the last one." in given["words"][1]


def test_the_words_say_which_part_is_the_largest_and_what_the_tables_are():
    """By counting a model on meta: LLaMA-3 8B has an LM head of its own, GPT-2 with one layer has its tables above all."""
    llama = facts.MODELS["LLaMA-3 8B"]
    small = replace(facts.MODELS["GPT-2"], name="small", layers=1)
    mine = replace(llama, name="mine", layers=3, width=96, heads=6, kv_heads=3, ffn=200, vocabulary=77)
    for shape in (llama, small, mine):
        parts = counted(shape)
        largest, all_of_it = max(parts, key=parts.get), sum(parts.values())
        words = ask("parameter-shares", **set_to(shape))["words"]
        assert words[0] == f"{all_of_it:,} parameters"
        assert f"The largest part is {largest}: {parts[largest] / all_of_it * 100:.3g} %." in words[1]
        tables = parts["embedding"] + parts["head"]
        assert f"Embedding matrix and LM head together: {tables / all_of_it * 100:.3g} %." in words[1]
    assert "6 query heads share 3" in words[2] and "A head is 16 wide" in words[2] and "That is" not in words[1]


@quick
@given(width=st.integers(1, 3000), heads=st.integers(1, 300), kv_heads=st.integers(1, 300))
def test_what_a_refusal_names_is_the_nearest_that_has_an_answer(width, heads, kv_heads):
    """By trying all sizes from what was asked for, outwards; the moves are read out of the words."""
    given = answer(
        "parameter-shares", first("parameter-shares") | {"width": width, "heads": heads, "kv_heads": kv_heads}
    )
    if not given.get("refused"):
        assert width % heads == heads % kv_heads == 0
        return
    moves = given["words"][0].split("Choose ")[1].rstrip(".").split(", or ")
    fits = {"width": lambda n: n % heads == 0, "heads": lambda n: width % n == 0, "kv_heads": lambda n: heads % n == 0}
    asked = {"width": width, "heads": heads, "kv_heads": kv_heads}
    named = {"kv_heads": moves[0]} if len(moves) == 1 else dict(zip(("width", "heads"), moves, strict=True))
    assert named.keys() == ({"width", "heads"} if width % heads else {"kv_heads"})
    for name, move in named.items():
        below = [n for n in range(1, asked[name]) if fits[name](n)]
        above = [n for n in range(asked[name] + 1, asked[name] + 3001) if fits[name](n)]
        assert [int(size) for size in re.findall(r"\d+", move)] == below[-1:] + above[:1]


def test_huge_sizes_are_refused_without_trying_them_all():
    words = refusal("parameter-shares", width="1e15", heads="3e13")
    assert words.endswith("heads 10000 or 1000000000000000."), "of those up to 10,000, and all"


def stop(name: str, number: int, **changes) -> int:
    """Where the slider of a size stops that was moved to `number`."""
    now = json.dumps(first("parameter-shares") | changes)
    return int(evaluate(f"CALCULATORS['parameter-shares'].stop('{name}', {number}, {now})").replace(",", ""))


@quick
@given(number=st.integers(1, 2**15), width=st.integers(1, 8192), heads=st.integers(1, 256))
def test_a_slider_stops_at_the_nearest_size_that_goes_with_the_others(number, width, heads):
    near = {
        "width": [n for n in range(1, 2**15 + 257) if n % heads == 0],
        "heads": [n for n in range(1, width + 1) if width % n == 0],
        "kv_heads": [n for n in range(1, heads + 1) if heads % n == 0],
    }
    for name, those in near.items():
        place = stop(name, number, width=f"{width:,}", heads=heads, kv_heads="one")
        assert place in those and abs(place - number) == min(abs(n - number) for n in those)
    assert stop("width", number, heads="many") == number


def test_heads_of_keys_go_along_with_the_heads():
    def keys(heads, kv_heads, before) -> str | None:
        was = json.dumps(first("parameter-shares") | {"heads": before, "kv_heads": kv_heads})
        now = json.dumps(first("parameter-shares") | {"heads": heads, "kv_heads": kv_heads})
        return evaluate(f"CALCULATORS['parameter-shares'].follow({was}, {now})").get("kv_heads")

    assert keys("16", "12", "12") == "16", "each keeps keys of its own"
    assert keys("64", "8", "32") == "8", "64 heads share 8 as 32 did"
    assert keys("4", "8", "32") == "4" and keys("12", "8", "32") == "6"
    assert keys("many", "8", "32") is keys("4", "", "32") is keys("32", "5", "32") is None


# 6. Memory: tensors on meta


def test_the_state_is_what_tensors_of_a_model_take():
    weights = list(models.build(facts.MODELS["GPT-2"]).parameters())
    alone = {"model": "GPT-2", "stage": "no ZeRO", "gpu": "A100", "gpus": 1, "recompute": "none"}
    parts = {recipe: ask("memory-budget", **alone, recipe=recipe)["byStage"][0] for recipe in napkin.RECIPES}
    averages = [torch.zeros_like(w) for w in weights * 2]
    assert parts["fp32 adamw"]["weights"] == parts["fp32 adamw"]["gradients"] == sum(w.nbytes for w in weights)
    assert parts["fp32 adamw"]["optimizer state"] == sum(a.nbytes for a in averages)
    assert parts["mixed adamw"]["weights"] == sum(w.bfloat16().nbytes for w in weights)
    assert parts["autocast"]["weights"] == sum(w.nbytes + w.bfloat16().nbytes for w in weights)


def test_it_says_what_would_fit():
    over = ask("memory-budget")["words"]
    assert (
        "does not fit into the 80.0 GB of one H100: 13.3 GB too much" in over[0]
        and over[2] == "ZeRO stage 2 would fit."
    )
    under = ask("memory-budget", stage="stage 3")["words"]
    assert "to spare" in under[0] and "ZeRO stage 2 is the lowest that fits" in under[2]
    small = {"model": "GPT-2", "recipe": "sgd", "recompute": "none"}
    assert "without ZeRO" in ask("memory-budget", **small, stage="no ZeRO", gpus=1, tokens=64)["words"][2]
    assert "activations alone" in ask("memory-budget", **small, gpus=64, batch=10**6, tokens=1024)["words"][2]
    assert "more GPUs" in ask("memory-budget", model="GPT-3 175B", tokens=64, recompute="full")["words"][2]


# 7. N against D: lecture 00's two weeks


def test_32_h100s_for_two_weeks_train_12_63_billion():
    given = ask("n-against-d", parameters="8B")
    assert given["flops"] == 19_150_387_200_000_000_000_000
    assert (int(given["best"][0]), round(given["best"][1] / 1e9, 1)) == (12_632_757_418, 252.7)
    assert given["words"][0] == "compute-optimal: 12.6B parameters on 253B tokens"
    assert "49.87 for each: 2.49 times more than 20" in given["words"][2]
    assert "times less than 20" in ask("n-against-d", parameters="80B")["words"][2]


# 8. A step, its communication, its learning rate


def test_a_step_begins_and_ends_as_its_optimizer_has_it():
    weights = 4 * 124_439_808
    for optimizer, state in (("SGD", 0), ("SGD with momentum", 4), ("AdamW", 8)):
        moments = [
            ask("step-memory", optimizer=optimizer, step=step)["moments"] for step in ("the first", "the second")
        ]
        starts, ends = [sum(each[0][1].values()) for each in moments], [sum(each[-1][1].values()) for each in moments]
        assert starts == [weights, weights * (1 + state // 4)]
        roots = optimizer == "AdamW"  # foreach: for all weights at once
        assert ends == [weights * (2 + state // 4 + roots)] * 2


def test_checkpointing_keeps_the_input_of_each_layer():
    plain, cut = (dict(ask("step-memory", checkpointing=how)["moments"]) for how in ("none", "every layer"))
    alive = "activations, temporaries"
    assert cut["forward of layer 12"][alive] == 12 * 4 * 8 * 1024 * 768
    again = cut["backward of layer 1"][alive] - 4 * 8 * 1024 * 768
    assert again == plain["backward of layer 1"][alive], "one layer, as if it had not been checkpointed"


def test_buckets_wait_for_the_one_before_and_for_their_gradients():
    small = {"parameters": 1_000_000, "bucket_mb": 1, "ranks": 2, "gigabytes_per_second": 1}
    given = ask("overlap", **small, backward_ms=10)  # 4 MB: 1 MB takes 2 · (0.5 MB / 1 GB/s + 5 µs) = 1.01 ms
    expected = [(2.5, 3.51), (5.0, 6.01), (7.5, 8.51), (10.0, 11.01)]
    assert [tuple(round(1e3 * each, 6) for each in bucket) for bucket in given["buckets"]] == expected
    slow = ask("overlap", **small, backward_ms=1)  # the network is the limit: one after the other
    assert [round(1e3 * begins, 6) for begins, _ in slow["buckets"]] == [0.25, 1.26, 2.27, 3.28]
    assert ask("overlap", ranks=1)["words"][1].endswith("100 % of that is hidden."), "one rank sends nothing"
    assert "more than 10,000" in refusal("overlap", bucket_mb="0.001")


def test_what_no_schedule_has_is_refused():
    assert refusal("schedule", warmup="10000").startswith("“10000” warm-up steps of 10,000: give a whole number")
    assert "2.5" in refusal("schedule", warmup="2.5") and "empty" in refusal("schedule", warmup="")
    assert "more than a million" in refusal("schedule", steps="2M")


# Anything at all

ANYTHING = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        ["1e30", "1e-30", "1e31", "-1", "0", "8B", "1,024", "inf", "nan", "((", "1/0", "4, 6", "²", "1e5000"]
    ),
)


@pytest.mark.parametrize("name", NAMES)
@quick
@given(data=st.data())
def test_whatever_is_typed_words_come_back(name, data):
    boxes = [each["name"] for each in description(name)["inputs"] if each["kind"] in ("count", "amount", "typed")]
    typed = {data.draw(st.sampled_from(boxes)): data.draw(ANYTHING) for _ in range(2)}
    words = answer(name, first(name) | typed)["words"]
    assert words and all(isinstance(line, str) and line and "undefined" not in line for line in words)
