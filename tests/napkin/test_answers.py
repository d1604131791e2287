"""What the calculators answer, against torch, models on meta, the lectures' worked numbers and exact arithmetic."""

import math
import struct
from dataclasses import replace
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from utils import models, napkin
from utils.facts import FORMATS, MODELS, PRECISIONS, PROCESSORS
from utils.measure import count_flops
from utils.napkin import answers

NAME = {answers.short_name(processor.name): processor.name for processor in PROCESSORS}
A100, H100, B200, RYZEN = (NAME[short] for short in ("A100", "H100", "B200", "Ryzen 7 7840U"))
quick = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def refused(answer, *arguments, **named) -> str:
    """The words with which a function refuses, whole sentences without a trace of Python's own errors."""
    with pytest.raises((ValueError, LookupError)) as caught:
        answer(*arguments, **named)
    words = caught.value.args[0]
    assert len(words) > 20 and "NoneType" not in words and "object" not in words and "unsupported" not in words
    return words


# What is typed


@pytest.mark.parametrize(
    ("typed", "number"),
    [
        ("8B", 8 * 10**9),
        ("8.03b", 8_030_000_000),
        ("15 T", 15 * 10**12),
        ("1,024", 1024),
        ("8_000", 8000),
        ("1e9", 10**9),
        (".5k", 500),
        ("1e30", 10**30),
        (12.0, 12),
        (7, 7),
    ],
)
def test_counts_are_read_as_people_write_them(typed, number):
    got = answers.count("n", typed)
    assert got == number and isinstance(got, int)


@pytest.mark.parametrize("typed", ["1,5", "1,02", "eight", "", "8BB", "0x10", "1e", "--1", "1e9999999", "9" * 500, "٣"])
def test_what_is_no_number_is_refused_in_words(typed):
    assert "n=" in refused(answers.count, "n", typed)


@pytest.mark.parametrize("value", [0, -1, "-8B", 2.5, "0.5", True, None, math.nan, math.inf, "1e31", 10**31, [1]])
def test_what_is_no_whole_number_above_zero_is_refused(value):
    assert "n=" in refused(answers.count, "n", value)


def test_amounts_may_be_parts_and_zero():
    assert answers.amount("x", "0.25") == 0.25 and answers.amount("x", "0") == 0 and answers.amount("x", -1.5) == -1.5


def test_processors_have_short_names():
    assert {"A100", "H100", "H200", "B200", "RTX 4090", "Ryzen 7 7840U"} <= NAME.keys()
    assert len(NAME) == len(PROCESSORS), "each its own"


# 1. Training time: the worked numbers of lecture 00


def test_the_famous_88_days_are_144():
    answer = answers.training_time("70B", "15T", H100, "1,024", 0.5, 2.5)
    assert answer.flops == 63 * 10**23
    assert round(answer.days, 2) == 143.93
    by_hand = 63e23 / (1024 * 989.5e12 * 0.5) / 3600  # hours
    assert answer.gpu_hours == pytest.approx(1024 * by_hand, rel=1e-12)
    assert answer.dollars == pytest.approx(2.5 * 1024 * by_hand, rel=1e-12)
    assert answer.words[0] == f"143.9 days, {2.5 * 1024 * by_hand:,.0f} dollars"


def test_gpt_2_for_20_dollars_in_90_minutes():
    answer = answers.training_time(124_439_808, "10B", A100, 8, 0.6, 1.75)
    assert (round(answer.seconds / 60), round(answer.dollars)) == (83, 19)
    assert "6 × 124M parameters × 10B tokens = 7.466e+18 FLOPs." in answer.words


def test_the_other_gpus_take_as_long_as_their_peaks_say():
    answer = answers.training_time("1B", "1B", A100, 1, 1, 1)
    assert set(answer.seconds_by_gpu) == {processor.name for processor in PROCESSORS} - {RYZEN}, "it has no bf16"
    assert answer.seconds_by_gpu[A100] == answer.seconds == pytest.approx(6e18 / 312e12)
    assert answer.seconds_by_gpu[B200] == pytest.approx(6e18 / 2250e12)
    many = answers.training_time("1B", "1B", A100, 8, 0.5, 1)
    assert many.seconds_by_gpu[A100] == many.seconds, "on as many, as busy"
    assert many.seconds_by_gpu[B200] == pytest.approx(6e18 / (8 * 0.5 * 2250e12))


def test_nonsense_about_runs_is_refused():
    assert "mfu=50 is more than all of it" in refused(answers.training_time, 1, 1, H100, 1, 50, 1)
    assert "'TPU'" in refused(answers.training_time, 1, 1, "TPU", 1, 0.5, 1)
    assert "no bf16 units" in refused(answers.training_time, 1, 1, RYZEN, 1, 0.5, 1)
    assert "dollars_per_hour=0" in refused(answers.training_time, 1, 1, H100, 1, 0.5, 0)


# 2. Storage: torch's own numbers


def torchs(shape, dtype, transposed, start, step) -> tuple[torch.Tensor, torch.Tensor]:
    tensor = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
    view = tensor.mT if transposed else tensor
    return tensor, view[..., start::step] if shape else view


@quick
@given(
    shape=st.lists(st.integers(1, 7), min_size=0, max_size=5),
    dtype=st.sampled_from(sorted(napkin.DTYPE_BYTES)),
    transposed=st.booleans(),
    start=st.integers(0, 6),
    step=st.integers(1, 8),
)
def test_strides_are_those_of_torch(shape, dtype, transposed, start, step):
    if (transposed and len(shape) < 2) or (not shape and (start, step) != (0, 1)):
        refused(answers.storage, tuple(shape), dtype, transposed, start, step)
        return
    tensor, view = torchs(shape, dtype, transposed, start, step)
    if view.numel() == 0:
        assert "leaves nothing" in refused(answers.storage, tuple(shape), dtype, transposed, start, step)
        return
    answer = answers.storage(", ".join(map(str, shape)), dtype, transposed, start, step)
    assert (answer.shape, answer.stride, answer.offset) == (tuple(view.shape), view.stride(), view.storage_offset())
    assert answer.contiguous == view.is_contiguous()
    assert (answer.nominal_bytes, answer.stored_bytes) == (view.nbytes, tensor.untyped_storage().nbytes())


def test_the_code_that_it_shows_makes_that_view():
    answer = answers.storage("4, 6", "int16", True, 1, 2)
    made = eval(answer.code, {"torch": torch})
    assert (made.dtype, made.shape, made.stride(), made.storage_offset()) == (torch.int16, (6, 2), (1, 12), 6)
    assert answer.code in answer.words[-1]


@pytest.mark.parametrize("typed", ["4, 6", "(4, 6)", "[4, 6]", "torch.Size([4, 6])", "4x6", "4 × 6", "4 6", "4,6,"])
def test_shapes_are_read_as_people_write_them(typed):
    assert answers.storage(typed, "float32").stored_shape == (4, 6)


def test_the_words_tell_a_copy_from_none():
    assert "nothing is copied" in answers.storage("4, 6", "float32").words[2]
    assert "would copy, and make a storage of its own of 96 B" in answers.storage("4, 6", "float32", True).words[2]
    assert "reads 12 of 24 stored elements" in answers.storage("4, 6", "float32", step=2).words[1]
    assert answers.storage("", "float64").nominal_bytes == 8


@pytest.mark.parametrize("typed", ["no", "4, 0", "4, -1", "4; 6", "2.5", "1e30, 1e30", "1 " * 9, 7, None, "4,,6.5"])
def test_what_is_no_shape_is_refused(typed):
    refused(answers.storage, typed, "float32")


def test_slices_that_torch_does_not_take_are_refused():
    for start, step in ((-1, 1), (0, 0), (0, -1), (0.5, 1), ("x", 1)):
        refused(answers.storage, "4, 6", "float32", False, start, step)
    assert "unknown dtype 'float7'" in refused(answers.storage, "4, 6", "float7")


# 3. Number formats: torch's conversion, struct, exact fractions

DTYPES = {name: getattr(torch, form.dtype) for name, form in FORMATS.items()}
FULL_RANGE = tuple(name for name in FORMATS if name != "tf32")
saturates = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13)


def torch_bits(value: float, name: str) -> str:
    raw = torch.tensor([value], dtype=torch.float64).to(DTYPES[name]).view(torch.uint8).tolist()
    return "".join(f"{byte:08b}" for byte in reversed(raw))


@quick
@given(
    value=st.one_of(
        st.floats(allow_nan=False, allow_infinity=False),
        st.floats(-500, 500),
        st.floats(-1e-4, 1e-4),
        st.builds(lambda n, p: math.ldexp(n, p), st.integers(-5000, 5000), st.integers(-160, 120)),
    ),
    name=st.sampled_from(FULL_RANGE),
)
def test_bits_are_those_that_torch_stores(value, name):
    answer = answers.number(repr(value), name)
    if name == "fp8 e4m3" and abs(value) > 464:
        assert abs(answer.stored) == 448 and "Overflow without an infinity" in answer.words[1]
        if not saturates:
            return
    assert answer.bits == torch_bits(value, name)
    stored = torch.tensor([value], dtype=torch.float64).to(DTYPES[name]).double().item()
    assert float(answer.stored) == stored


@quick
@given(value=st.floats(2.0**-100, 2.0**100))
def test_tf32_is_a_float32_without_its_lower_13_bits(value):
    (code,) = struct.unpack("<I", struct.pack("<f", value))
    answer = answers.number(repr(value), "tf32")
    assert answer.bits == f"{code:032b}"[:19]
    (kept,) = struct.unpack("<f", struct.pack("<I", code & ~0x1FFF))
    assert float(answer.stored) == kept


@pytest.mark.parametrize("name", FULL_RANGE)
@pytest.mark.parametrize("typed", ["inf", "-inf", "nan", "-0.0", "0"])
def test_special_numbers_have_torchs_bits(name, typed):
    if name == "fp8 e4m3" and "inf" in typed and not saturates:
        pytest.skip("this torch makes nan of it")
    assert answers.number(typed, name).bits == torch_bits(float(typed), name)


@pytest.mark.parametrize("name", ["fp16", "bf16", "fp8 e4m3", "fp8 e5m2"])
def test_neighbours_are_the_next_of_all_numbers_of_the_format(name):
    width = torch.uint8 if DTYPES[name].itemsize == 1 else torch.int16
    codes = torch.arange(2 ** (8 * DTYPES[name].itemsize)).to(width)
    numbers = sorted(set(codes.view(DTYPES[name]).double().tolist()) - {math.inf, -math.inf} - {math.nan})
    numbers = sorted({each for each in numbers if math.isfinite(each)})
    for place in (1, len(numbers) // 3, len(numbers) // 2, len(numbers) - 2):
        answer = answers.number(repr(numbers[place]), name)
        near = tuple(float(each) for each in (answer.below, answer.stored, answer.above))
        assert near == tuple(numbers[place - 1 : place + 2])
    largest = answers.number(repr(numbers[-1]), name)
    assert math.isnan(largest.above) if name == "fp8 e4m3" else largest.above == math.inf


@pytest.mark.parametrize("name", FULL_RANGE)
def test_limits_are_those_of_torch(name):
    limits, facts = answers.number("1", name).limits[name], torch.finfo(DTYPES[name])
    assert limits == (facts.smallest_normal * facts.eps, facts.smallest_normal, facts.max)


def test_the_error_is_exact():
    answer = answers.number("0.1", "fp16")
    assert answer.error == Fraction("0.0999755859375") - Fraction(1, 10)
    assert answer.words[0] == "fp16 holds 0.0999755859375"
    assert answer.words[1] == "Error -0.0000244, 0.0244 % of the number."
    wide = answers.number("0.1", "fp64")
    assert wide.error == Fraction(*(0.1).as_integer_ratio()) - Fraction(1, 10) != 0
    assert answers.number("0.5", "bf16").words[1] == "Exactly what was typed: no error."
    assert answers.number("1/3", "fp32").error == Fraction(*torch.tensor(1 / 3).item().as_integer_ratio()) - Fraction(
        1, 3
    )


def test_the_words_name_what_happened():
    assert "underflow" in answers.number("1e-8", "fp16").words[1]
    assert "underflow" in answers.number("1e-400", "fp64").words[1]
    assert "Overflow" in answers.number("65520", "fp16").words[1] and answers.number("65519", "fp16").stored == 65504
    assert "Overflow" in answers.number("1e400", "fp64").words[1]
    assert "no infinity" in answers.number("-inf", "fp8 e4m3").words[1]
    assert "not even itself" in answers.number("nan", "bf16").words[1]
    assert "subnormal: +0.0000000101₂ × 2^-14" in answers.number("3e-7", "fp16").words[2]
    assert "normal: −1.0000000₂ × 2^8" in answers.number("-257", "bf16").words[2]
    assert "0 10000111 0000000 (sign, exponent, mantissa)" in answers.number("257", "bf16").words[2]
    for typed in ("65520", "1e400", "-inf", "nan", "0"):
        for name in FORMATS:
            assert answers.number(typed, name).error is not None


@pytest.mark.parametrize("typed", ["", "one", "1/0", "1e401", "1e-99999", "0x1p3", "1,5", "--1", "9" * 200, None, [1]])
def test_what_is_no_number_in_any_format_is_refused(typed):
    refused(answers.number, typed, "fp16")


def test_unknown_formats_are_refused():
    assert "unknown format 'fp4': one of fp64" in refused(answers.number, "1", "fp4")


# 4. Matmul: torch's counter and bytes


@quick
@given(sizes=st.tuples(*[st.integers(1, 10**6)] * 3), precision=st.sampled_from(PRECISIONS))
def test_flops_and_bytes_are_those_of_torch_tensors(sizes, precision):
    m, k, n = sizes
    answer = answers.matmul(m, k, n, B200, precision)
    dtype = {"fp64": torch.float64, "fp32": torch.float32, "tf32": torch.float32, "fp8": torch.float8_e4m3fn}
    make = lambda *shape: torch.empty(shape, dtype=dtype.get(precision, torch.bfloat16), device="meta")  # noqa: E731
    left, right, out = make(m, k), make(k, n), make(m, n)
    assert answer.nbytes == left.nbytes + right.nbytes + out.nbytes
    assert answer.flops == count_flops(torch.matmul, left.float(), right.float())


def test_a_large_product_is_bound_by_arithmetic_and_a_thin_one_by_memory():
    large, thin = answers.matmul(4096, 4096, 4096, H100, "bf16"), answers.matmul(1, 4096, 4096, H100, "bf16")
    assert (large.bound_by, thin.bound_by) == ("arithmetic", "memory")
    assert large.seconds == pytest.approx(2 * 4096**3 / 989.5e12)
    assert thin.seconds == pytest.approx((2 * 4096**2 + 2 * 2 * 4096) / 3.35e12)
    assert large.words[0] == "139 µs at best, bound by arithmetic" and "100 % of the peak" in large.words[-2]
    elsewhere = answers.matmul(4096, 4096, 4096, "NVIDIA A100-SXM4-80GB", "fp32").seconds
    assert f"A100 {1000 * elsewhere:.2f} ms in fp32" in large.words[-1] and "H100 " in large.words[-1]
    share = (
        100 * (2 * 4096**2) / (2 * 4096**2 + 2 * 2 * 4096) * 3.35 / 989.5
    )  # by hand: FLOPs for each byte, 1 here at most
    assert f"At most 3.348 TFLOP/s, {share:.3g} % of the peak." == thin.words[-2]
    assert large.ridge == pytest.approx(989.5 / 3.35)
    assert large.intensity == pytest.approx(4096 / 3), "2 n³ over 3 n² of 2 bytes"


def test_a_processor_without_the_precision_says_so():
    assert "has no fp8 units: choose among fp64" in refused(answers.matmul, 1, 1, 1, A100, "fp8")
    assert "unknown precision 'int8'" in refused(answers.matmul, 1, 1, 1, A100, "int8")


# 5. Parameters: models on meta


def shares(shape, **changed) -> answers.Parameters:
    sizes = {name: getattr(shape, name) for name in ("layers", "width", "heads", "kv_heads", "ffn", "vocabulary")}
    flags = {"gated": shape.gated, "tied": shape.tied, "positions": shape.learned_positions, "biases": shape.biases}
    return answers.parameters(**sizes | {"context": shape.context} | flags | changed)


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


@pytest.mark.parametrize("model", MODELS)
def test_the_parts_are_those_of_a_model_on_meta(model):
    answer = shares(MODELS[model])
    assert answer.parts == counted(MODELS[model])
    assert answer.same_as == model and f"That is {model}, to the last one." in answer.words[1]


def test_the_words_say_which_part_is_the_largest_and_what_the_tables_are():
    """By counting a model on meta: LLaMA-3 8B has an LM head of its own, GPT-2 with one layer has its tables above all."""
    small = replace(MODELS["GPT-2"], name="small", layers=1)
    for shape, largest in ((MODELS["LLaMA-3 8B"], "ffn"), (small, "embedding")):
        parts = counted(shape)
        whole, tables = sum(parts.values()), parts["embedding"] + parts["head"]
        words = shares(shape).words[1]
        assert f"The largest part is {largest}: {parts[largest] / whole * 100:.3g} %." in words
        assert f"Embedding matrix and LM head together: {tables / whole * 100:.3g} %." in words


def test_a_shape_of_ones_own_is_counted_on_meta_too():
    shape = replace(MODELS["LLaMA-3 8B"], name="mine", layers=3, width=96, heads=6, kv_heads=3, ffn=200, vocabulary=77)
    answer = shares(shape)
    assert answer.parts == counted(shape) and answer.same_as == ""
    assert answer.words[0] == f"{sum(p.numel() for p in models.build(shape).parameters()):,} parameters"
    assert "6 query heads share 3" in answer.words[2] and "A head is 16 wide" in answer.words[2]


def test_shapes_that_no_model_has_are_refused():
    shape = MODELS["GPT-2"]
    assert "width=768 does not split into heads=7" in refused(shares, shape, heads=7)
    assert "heads=12 do not share kv_heads=5" in refused(shares, shape, kv_heads=5)
    assert "layers=" in refused(shares, shape, layers="many")


@quick
@given(width=st.integers(1, 3000), heads=st.integers(1, 300), kv_heads=st.integers(1, 300))
def test_what_a_refusal_names_is_the_nearest_that_has_an_answer(width, heads, kv_heads):
    """By trying all sizes from what was asked for, outwards; the moves are read out of the words."""
    sizes = {"width": width, "heads": heads, "kv_heads": kv_heads}
    try:
        shares(MODELS["GPT-2"], **sizes)
    except ValueError as error:
        moves = error.args[0].split(": choose ")[1].split(", or ")
    else:
        return
    fits = {"width": lambda n: n % heads == 0, "heads": lambda n: width % n == 0, "kv_heads": lambda n: heads % n == 0}
    named = {move.split()[0]: [int(size) for size in move.replace(" or ", " ").split()[1:]] for move in moves}
    assert named.keys() == ({"width", "heads"} if width % heads else {"kv_heads"})
    for name, nearest in named.items():
        below = [n for n in range(1, sizes[name]) if fits[name](n)]
        above = [n for n in range(sizes[name] + 1, sizes[name] + 3001) if fits[name](n)]
        assert nearest == below[-1:] + above[:1]


@quick
@given(number=st.integers(1, 2**15), width=st.integers(1, 8192), heads=st.integers(1, 256))
def test_a_slider_stops_at_the_nearest_size_that_goes_with_the_others(number, width, heads):
    sizes = {"width": f"{width:,}", "heads": heads, "kv_heads": "one"}
    near = {
        "width": [n for n in range(1, 2**15 + 257) if n % heads == 0],
        "heads": [n for n in range(1, width + 1) if width % n == 0],
        "kv_heads": [n for n in range(1, heads + 1) if heads % n == 0],
    }
    for name, those in near.items():
        stop = answers.slider_stop(name, number, sizes)
        assert stop in those and abs(stop - number) == min(abs(n - number) for n in those)
    assert answers.slider_stop("width", number, sizes | {"heads": "many"}) == number


def test_heads_of_keys_go_along_with_the_heads():
    assert answers.keys_that_follow("16", "12", "12") == 16, "each keeps keys of its own"
    assert answers.keys_that_follow("64", "8", "32") == 8, "64 heads share 8 as 32 did"
    assert answers.keys_that_follow("4", "8", "32") == 4 and answers.keys_that_follow("12", "8", "32") == 6
    assert answers.keys_that_follow("many", 8, 32) is answers.keys_that_follow(4, "", 32) is None


def test_huge_sizes_are_refused_without_trying_them_all():
    words = refused(shares, MODELS["GPT-2"], width="1e30", heads="3e28")
    assert words.endswith(f"heads 10000 or {10**30}"), "of those up to 10,000, and all"


# 6. Memory: tensors on meta, the tables of papers


def test_the_state_is_what_tensors_of_a_model_take():
    weights = list(models.build(MODELS["GPT-2"]).parameters())
    answer = answers.memory("GPT-2", "fp32 adamw", 0, A100, 1, 1, 1024, "none")
    averages = [torch.zeros_like(w) for w in weights * 2]
    assert answer.parts["weights"] == answer.parts["gradients"] == sum(w.nbytes for w in weights)
    assert answer.parts["optimizer state"] == sum(a.nbytes for a in averages)
    assert answer.parts["logits"] == 3 * torch.empty(1, 1024, 50_257, device="meta").nbytes
    mixed = answers.memory("GPT-2", "mixed adamw", 0, A100, 1, 1, 1024, "none")
    assert mixed.parts["weights"] == sum(w.bfloat16().nbytes for w in weights)
    cached = answers.memory("GPT-2", "autocast", 0, A100, 1, 1, 1024, "none").parts["weights"]
    assert cached == sum(w.nbytes + w.bfloat16().nbytes for w in weights)


def test_each_stage_shares_out_one_part_more():
    answer = answers.memory("GPT-2", "mixed adamw", 2, A100, 8, 1, 1024, "none")
    size = 124_439_808
    by_hand = {0: (2, 2, 12), 1: (2, 2, 1.5), 2: (2, 0.25, 1.5), 3: (0.25, 0.25, 1.5)}
    for stage, bytes_each in by_hand.items():
        state = [answer.by_stage[stage][part] for part in ("weights", "gradients", "optimizer state")]
        assert state == [size * each for each in bytes_each]
    assert answer.parts == answer.by_stage[2]


def test_activations_follow_the_laws_of_the_lecture():
    def kept(recipe: str, recompute: str) -> int:
        return answers.memory("GPT-2", recipe, 0, A100, 1, 4, 512, recompute).parts["activations"]

    s, b, h, a, layers = 512, 4, 768, 12, 12
    whole = s * b * h * 34 + 5 * a * s * s * b
    assert kept("mixed adamw", "none") == layers * whole
    assert kept("mixed adamw", "selective") == layers * 34 * s * b * h
    assert kept("mixed adamw", "full") == layers * 2 * s * b * h + whole, "one layer whole while it is recomputed"
    rows = b * a * s
    plain = 64 * s * b * h + 16 * b * s + 4 * rows * s + s * s
    assert kept("fp32 adamw", "none") == layers * plain
    assert kept("fp32 adamw", "selective") == layers * (64 * s * b * h + 16 * b * s + 4 * rows)
    assert kept("sgd", "full") == layers * 4 * s * b * h + plain


def test_it_says_what_would_fit():
    over = answers.memory("LLaMA-3 8B", "mixed adamw", 1, H100, 8, 1, 8192, "selective")
    assert not over.fits and "does not fit into the 80.0 GB of one H100: 13.3 GB too much" in over.words[0]
    assert over.words[2] == "ZeRO stage 2 would fit."
    under = answers.memory("LLaMA-3 8B", "mixed adamw", 3, H100, 8, 1, 8192, "selective")
    assert under.fits and "to spare" in under.words[0] and "ZeRO stage 2 is the lowest that fits" in under.words[2]
    assert "without ZeRO" in answers.memory("GPT-2", "sgd", 0, A100, 1, 1, 64, "none").words[2]
    assert "activations alone" in answers.memory("GPT-2", "sgd", 3, A100, 64, 10**6, 1024, "none").words[2]
    assert "more GPUs" in answers.memory("GPT-3 175B", "mixed adamw", 3, A100, 8, 1, 64, "full").words[2]


def test_what_fills_a_card_to_the_last_byte_fits():
    answer = answers.memory("GPT-2", "sgd", 0, A100, 1, 1, 64, "none")
    full = replace(answer, limit=answer.total)
    assert full.fits and "0 B to spare" in full.words[0] and not replace(answer, limit=answer.total - 1).fits


def test_nonsense_about_memory_is_refused():
    arguments = {"model": "GPT-2", "recipe": "sgd", "stage": 0, "gpu": A100, "gpus": 1, "batch": 1, "tokens": 8}
    arguments |= {"recompute": "none"}
    assert answers.memory(**arguments).fits
    for name, bad in (("model", "GPT-5"), ("recipe", "adam"), ("stage", 4), ("recompute", "all"), ("batch", 0)):
        assert str(bad) in refused(answers.memory, **arguments | {name: bad})
    assert "'H50'" in refused(answers.memory, **arguments | {"gpu": "H50"})


# 7. N against D: lecture 00's two weeks


def test_32_h100s_for_two_weeks_train_12_63_billion():
    answer = answers.scaling(H100, 32, 14, 0.5, 20, "8B")
    assert answer.flops == 19_150_387_200_000_000_000_000
    parameters, tokens = answer.best
    assert (int(parameters), round(tokens / 1e9, 1)) == (12_632_757_418, 252.7)
    assert 6 * answer.parameters * answer.tokens == pytest.approx(answer.flops, rel=1e-12), "on the same line"
    assert answer.words[0] == "compute-optimal: 12.6B parameters on 253B tokens"
    assert "49.87 for each: 2.49 times more than 20" in answer.words[2]
    assert "times less than 20" in answers.scaling(H100, 32, 14, 0.5, 20, "80B").words[2]


def test_nonsense_about_budgets_is_refused():
    for place, bad in enumerate(("TPU", 0, "-1", 1.5, 0, "many")):
        arguments = [H100, 32, 14, 0.5, 20, "8B"]
        arguments[place] = bad
        refused(answers.scaling, *arguments)


# Anything at all

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(
        ["1e30", "1e-30", "1e31", "-1", "0", "8B", "1,024", "inf", "nan", "((", "1/0", "4, 6", "²", "1e5000"]
    ),
)
CALLS = {
    answers.training_time: ("8B", "15T", H100, 1024, 0.4, 2.5),
    answers.storage: ("4, 6", "float32", False, 0, 1),
    answers.number: ("0.1", "fp16"),
    answers.matmul: (1, 2, 3, H100, "bf16"),
    answers.parameters: (2, 64, 4, 2, 128, 100, 32, True, False, True, False),
    answers.memory: ("GPT-2", "sgd", 0, A100, 1, 1, 8, "none"),
    answers.scaling: (H100, 32, 14, 0.5, 20, "8B"),
}


@pytest.mark.parametrize("answer", CALLS, ids=lambda function: function.__name__)
@quick
@given(data=st.data())
def test_whatever_is_set_words_come_back(answer, data):
    arguments = list(CALLS[answer])
    for _ in range(2):
        arguments[data.draw(st.integers(0, len(arguments) - 1))] = data.draw(ANYTHING)
    try:
        words = answer(*arguments).words
    except (ValueError, LookupError) as error:
        words = error.args
    assert all(isinstance(line, str) and line for line in words)
