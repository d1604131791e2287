"""The formulas, each against something that does not know it: torch's own sizes, loops that count, states that optimizers
allocate. (Parameters, FLOPs and activations of whole models: tests/test_models.py; tables of papers:
tests/test_published.py.)"""

import math
import re
from dataclasses import replace
from itertools import product

import pytest
import torch

from utils import facts
from utils.napkin import formulas as napkin

SHAPE = facts.ModelShape("s", 3, 8, 4, 2, 20, True, 11, 16, False, False, False, False, "made up for these tests")


def test_bytes_of_every_dtype_are_torchs():
    names = [name for name, value in vars(torch).items() if isinstance(value, torch.dtype) and str(value)[6:] == name]
    rare = re.compile(
        r"u?int[1-7]|bits.*|qu?int.*|b?complex32|float8_e8m0fnu|float4_.*"
    )  # quantised, packed, unfinished
    common = {name for name in names if not rare.fullmatch(name)}
    assert common == set(napkin.DTYPE_BYTES)
    for name, size in napkin.DTYPE_BYTES.items():
        assert napkin.tensor_bytes((3, 5), name) == torch.zeros(3, 5).to(getattr(torch, name)).nbytes == 15 * size
    assert napkin.tensor_bytes((), "float32") == torch.tensor(1.0).nbytes


def test_units():
    assert napkin.GB == 1000**3 and napkin.DAY == 24 * 60 * 60
    assert napkin.tensor_bytes((49_152, 12_288), "float32") / 1024**3 == 2.25


def test_a_matmul_by_loops():
    """Every multiplication and every addition to a sum that starts at zero; every value read or written once."""
    for m, k, n in [(1, 1, 1), (2, 3, 5), (4, 1, 3)]:
        operations, touched = 0, set()
        for i, j, inner in product(range(m), range(n), range(k)):
            operations += 2
            touched |= {("a", i, inner), ("b", inner, j), ("c", i, j)}
        assert napkin.matmul_flops(m, k, n) == operations
        assert napkin.matmul_flops(m, k, n, batch=7) == 7 * operations
        assert napkin.matmul_bytes(m, k, n, 2) == 2 * len(touched)


def test_a_perceptron_by_loops():
    for sizes in [(5, 3), (4, 3, 2), (2, 2, 2, 2)]:
        forward = 0
        for layer, _, inputs, outputs in product(range(len(sizes) - 1), range(6), range(5), range(5)):
            if inputs < sizes[layer] and outputs < sizes[layer + 1]:
                forward += 2
        assert napkin.mlp_forward_flops(6, sizes) == forward


def test_the_roofline():
    peak, bandwidth = 100.0, 4.0
    ridge = napkin.ridge_intensity(peak, bandwidth)
    assert ridge == 25
    for intensity in (0.5, 24, 25, 26, 1e6):
        seconds_for_a_byte = max(1 / bandwidth, intensity / peak)  # memory and arithmetic at the same time
        assert napkin.attainable_flops(intensity, peak, bandwidth) == pytest.approx(intensity / seconds_for_a_byte)
    assert napkin.arithmetic_intensity(napkin.matmul_flops(8, 8, 8), napkin.matmul_bytes(8, 8, 8, 4)) == 1024 / 768


def test_the_parts_of_a_layer():
    """GPT-2's from 12 d² + 13 d a layer; LLaMA's from the shapes that its weight files list."""
    gpt, d = facts.MODELS["GPT-2"], 768
    parts = napkin.parameter_parts(gpt)
    assert parts["attention"] + parts["ffn"] + parts["norms"] == 12 * (12 * d**2 + 13 * d) + 2 * d
    assert (parts["embedding"], parts["positions"], parts["head"]) == (50_257 * d, 1_024 * d, 0)
    llama = napkin.parameter_parts(facts.MODELS["LLaMA-3 8B"])
    assert llama["attention"] == 32 * (2 * 4_096 * 4_096 + 2 * 1_024 * 4_096)
    assert llama["ffn"] == 32 * 3 * 14_336 * 4_096 and llama["norms"] == 65 * 4_096
    assert llama["head"] == llama["embedding"] == 128_256 * 4_096 and llama["positions"] == 0


def test_parameters_of_released_models():
    """As their weight files count (test_models.py counts them on meta)."""
    assert {name: napkin.parameter_count(shape) for name, shape in facts.MODELS.items()} == {
        "GPT-2": 124_439_808,
        "GPT-2 XL": 1_557_611_200,
        "GPT-3 175B": 174_604_259_328,
        "LLaMA-2 7B": 6_738_415_616,
        "LLaMA-3 8B": 8_030_261_248,
        "LLaMA-3 70B": 70_553_706_496,
        "1.27B": 1_274_138_624,
    }


def test_the_matrices_of_the_1_27b_model_are_12_l_d_d_and_v_d():
    """What its name rounds: no norms, no biases. The shape has both: 13 d a layer and 2 d at the end."""
    bare = napkin.matmul_parameters(facts.MODELS["1.27B"])
    assert bare == 12 * 24 * 2_048**2 + 32_000 * 2_048 == 1_273_495_552
    assert napkin.parameter_count(facts.MODELS["1.27B"]) - bare == 24 * 13 * 2_048 + 2 * 2_048


def test_attention_by_loops():
    """Each of the queries meets each of the keys in each head, twice: scores, and shares times values."""
    flops = gradients = 0
    for _layer, _head, _query, _key, _dimension in product(range(3), range(4), range(5), range(5), range(2)):
        flops += 2 * 2
        gradients += 2 * 4  # c += a * b goes back as da += dc * b and db += dc * a
    assert napkin.attention_flops(3, 8, 5) == flops
    weights = 2 * 5 * napkin.matmul_parameters(SHAPE)
    assert napkin.forward_flops(SHAPE, 5) == flops + weights
    assert napkin.forward_flops(SHAPE, 5, sequences=3) == 3 * (flops + weights)
    assert napkin.backward_flops(SHAPE, 5) == gradients + 4 * 5 * napkin.matmul_parameters(SHAPE)
    assert napkin.backward_flops(SHAPE, 5, sequences=3) == 3 * napkin.backward_flops(SHAPE, 5)


def test_attentions_share():
    gpt = facts.MODELS["GPT-3 175B"]
    blocks = gpt.layers * 12 * gpt.width**2
    for tokens in (2_048, 12_288, 6 * 12_288):
        counted = napkin.attention_flops(gpt.layers, gpt.width, tokens) / (2 * tokens * blocks)
        assert napkin.attention_share(tokens, gpt.width) == pytest.approx(counted, rel=1e-12)
    assert napkin.attention_share(6 * 8, 8) == 1


def test_training_flops():
    assert napkin.training_flops_6nd(70_000_000_000, 15_000_000_000_000) == 63 * 10**23
    one = napkin.training_flops_6nd(1, 1)
    assert isinstance(one, int) and one == 2 + 4, "a multiply-add forward, two backward"


def test_chinchilla_spends_the_budget_and_has_its_ratio():
    for flops in (1e18, 5.76e23, 1.915e22):
        parameters, tokens = napkin.chinchilla_optimal(flops)
        assert 6 * parameters * tokens == pytest.approx(flops, rel=1e-12)
        assert tokens / parameters == pytest.approx(1.4e12 / 70e9, rel=1e-12), "Chinchilla's own"
        parameters, tokens = napkin.chinchilla_optimal(flops, tokens_per_parameter=3)
        assert tokens / parameters == pytest.approx(3) and 6 * parameters * tokens == pytest.approx(flops)


def test_time_money_and_utilisation_undo_each_other():
    seconds = napkin.training_seconds(6.3e24, 1024, 989.5e12, 0.5)
    assert seconds / 86_400 == pytest.approx(143.9266, abs=1e-4), "70e9 parameters, 15e12 tokens, 1,024 H100s"
    assert napkin.mfu(6.3e24, seconds, 1024 * 989.5e12) == pytest.approx(0.5, rel=1e-12)
    assert napkin.training_seconds(1e15, 1, 1e15, 1) == napkin.training_seconds(1e15, 1, 1e15, 1.0) == 1
    assert napkin.cost_dollars(7_200, 3, 2.5) == 2 * 3 * 2.5


def state_bytes(optimizer, weights: torch.Tensor) -> dict[str, float]:
    """Bytes per parameter after one step: of weights, gradient, and each tensor of the optimizer's state."""
    weights.grad = torch.ones_like(weights)
    optimizer.step()
    state = {name: value for name, value in optimizer.state[weights].items() if value.shape == weights.shape}
    tensors = {"weights": weights, "gradients": weights.grad, **state}
    return {name: tensor.nbytes / weights.numel() for name, tensor in tensors.items()}


def test_recipes_are_what_optimizers_hold():
    fp32, bf16 = (torch.nn.Parameter(torch.ones(64, dtype=dtype)) for dtype in (torch.float32, torch.bfloat16))
    held = {
        "sgd": state_bytes(torch.optim.SGD([fp32], lr=0.1), fp32),
        "momentum": state_bytes(torch.optim.SGD([fp32], lr=0.1, momentum=0.9), fp32),
        "fp32 adamw": state_bytes(torch.optim.AdamW([fp32]), fp32),
        "pure bf16": state_bytes(torch.optim.AdamW([bf16]), bf16),
    }
    # Mixed: a float32 master copy and its two moments, beside bf16 weights and gradients.
    master = state_bytes(torch.optim.AdamW([fp32]), fp32)
    held["mixed adamw"] = {"weights": 2, "gradients": 2, "master": master["weights"], "m": master["exp_avg"]}
    held["mixed adamw"]["v"] = master["exp_avg_sq"]
    with torch.autocast("cpu", torch.bfloat16):
        copies = []
        x = torch.ones(1, 64, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: copies.append(t) or t, lambda t: t):
            torch.nn.functional.linear(x, fp32.view(1, 64))
    weights = [t for t in copies if t.numel() == 64 and t.untyped_storage()._cdata != x.untyped_storage()._cdata]
    held["autocast"] = {**held["fp32 adamw"], "copy": weights[0].nbytes / 64}
    assert set(held) == set(napkin.RECIPES)
    for recipe, parts in held.items():
        assert sorted(parts.values()) == sorted(napkin.RECIPES[recipe].values()), recipe
        assert napkin.optimizer_bytes_per_parameter(recipe) == sum(parts.values())
        assert napkin.training_state_bytes(10**9, recipe) == 10**9 * sum(parts.values())


def test_zero_by_handing_out_parameters():
    """Every parameter has one owner of each sharded part; the fullest device is asked."""
    for parameters, ranks in [(12, 4), (13, 4), (3, 8), (7, 1)]:
        owned = [len(range(rank, parameters, ranks)) for rank in range(ranks)]
        assert napkin.zero_bytes(parameters, ranks, 0) == 16 * parameters
        assert napkin.zero_bytes(parameters, ranks, 1) == 4 * parameters + 12 * max(owned)
        assert napkin.zero_bytes(parameters, ranks, 2) == 2 * parameters + 14 * max(owned)
        assert napkin.zero_bytes(parameters, ranks, 3) == 16 * max(owned)
    assert napkin.zero_bytes(10**18 + 1, 10, 3) == 16 * (10**17 + 1), "integers to the unit"


def test_each_part_of_a_recipe_is_shared_out_from_its_stage():
    begins = {"weights": 3, "bf16 copies": 3, "gradients": 2, "momentum": 1, "variance": 1, "master weights": 1}
    assert set(begins) == {part for recipe in napkin.RECIPES.values() for part in recipe}
    for recipe, each in napkin.RECIPES.items():
        assert napkin.state_parts(10, recipe, 1, 0) == {part: 10 * nbytes for part, nbytes in each.items()}
        for stage in range(4):
            parts = napkin.state_parts(10, recipe, 3, stage)  # of 10 the fullest of 3 devices holds 4
            assert parts == {part: (4 if stage >= begins[part] else 10) * nbytes for part, nbytes in each.items()}


def test_a_budget_is_what_is_spent_in_its_time():
    budget = napkin.compute_budget(14 * napkin.DAY, 32, 989.5e12, 0.5)
    assert budget == 19_150_387_200_000_000_000_000
    assert napkin.training_seconds(budget, 32, 989.5e12, 0.5) == 14 * napkin.DAY


def test_activations_by_the_tensors_that_backward_reads():
    """A list of them, with their shapes (test_models.py asks autograd itself)."""
    B, T, D, H = 3, 5, 8, 2
    wide = [(B, T, D)] * 8 + [(B, T, 4 * D)] * 2  # input, norm, q, k, v, merged, middle, norm; before and after GELU
    of_norms = [(B, T, 1)] * 4
    fp32 = sum(math.prod(shape) for shape in wide + of_norms)
    assert napkin.activation_bytes(B, T, D, H) == 4 * (fp32 + B * H * T * T) + T * T
    assert napkin.activation_bytes(B, T, D, H, "plain") == napkin.activation_bytes(B, T, D, H)
    assert napkin.activation_bytes(B, T, D, H, "flash") == 4 * (fp32 + B * H * T)


def korthikanti_tensors(s: int, b: int, h: int, a: int) -> dict[str, int]:
    """Bytes of what section 4.1 lists: 2 a value, 1 for a dropout's mask; by whether tensor parallelism splits it."""
    sbh, scores = s * b * h, a * s * s * b
    in_every_device = 2 * sbh + 2 * sbh + 2 * sbh + 2 * sbh + sbh + sbh  # two norms, qkv's and ffn's input, two masks
    split = 2 * sbh + 2 * sbh + 2 * sbh + 2 * sbh + 8 * sbh + 8 * sbh  # q, k, v, out's input, and around GELU
    return {
        "whole": in_every_device,
        "split": split,
        "scores": 2 * scores + scores + 2 * scores,
    }  # softmax, mask, dropped


def test_korthikanti_by_its_list_of_tensors():
    formula = napkin.korthikanti_bytes_per_layer
    s, b, h, a = 16, 2, 32, 8
    kept = korthikanti_tensors(s, b, h, a)
    assert formula(s, b, h, a) == sum(kept.values()) == s * b * h * (34 + 5 * a * s // h)
    for t in (1, 2, 4, 8):
        assert formula(s, b, h, a, t) == kept["whole"] + (kept["split"] + kept["scores"]) / t
        assert formula(s, b, h, a, t, sequence_parallel=True) == sum(kept.values()) / t
        assert formula(s, b, h, a, t, recompute="selective") == kept["whole"] + kept["split"] / t
        assert formula(s, b, h, a, t, True, "selective") == 34 * s * b * h / t
        assert formula(s, b, h, a, t, recompute="full") == 2 * s * b * h, "the layer's input"
        assert formula(s, b, h, a, t, True, "full") == 2 * s * b * h / t
    assert isinstance(formula(s, b, h, a, 8, True), int)


# What a formula must refuse: name, arguments by name, which of them are whole numbers and which any positive number.
WHOLE = {
    "matmul_flops": {"m": 2, "k": 3, "n": 4, "batch": 5},
    "matmul_bytes": {"m": 2, "k": 3, "n": 4, "bytes_per_value": 2},
    "attention_flops": {"layers": 1, "width": 2, "tokens": 3},
    "training_flops_6nd": {"parameters": 2, "tokens": 3},
    "attention_share": {"tokens": 2, "width": 3},
    "zero_bytes": {"parameters": 2, "ranks": 3, "stage": 1},
    "activation_bytes": {"batch": 1, "tokens": 2, "width": 3, "heads": 4},
    "korthikanti_bytes_per_layer": {"sequence": 1, "batch": 2, "hidden": 8, "heads": 4, "tensor_parallel": 2},
}
REAL = {
    "arithmetic_intensity": {"flops": 1.5, "nbytes": 2.5},
    "ridge_intensity": {"peak_flops_per_s": 1.5, "bandwidth_bytes_per_s": 2.5},
    "attainable_flops": {"intensity": 1.5, "peak_flops_per_s": 1.5, "bandwidth_bytes_per_s": 2.5},
    "chinchilla_optimal": {"flops": 1.5, "tokens_per_parameter": 2.5},
    "mfu": {"model_flops": 1.5, "seconds": 2.5, "peak_flops_per_s": 1.5},
    "training_seconds": {"flops": 1.5, "peak_flops_per_s": 1.5, "processors": 1, "mfu": 0.5},
    "compute_budget": {"seconds": 1.5, "peak_flops_per_s": 1.5, "processors": 1, "mfu": 0.5},
    "cost_dollars": {"seconds": 1.5, "dollars_per_hour": 1.5, "processors": 1},
}


def refused(function, message: str, *args, **kwargs) -> None:
    with pytest.raises(ValueError, match=message):
        function(*args, **kwargs)


def test_sizes_that_are_no_whole_numbers_above_zero_are_refused():
    for name, arguments in WHOLE.items():
        function = getattr(napkin, name)
        function(**arguments)
        for argument in arguments:
            if argument == "stage":
                continue
            for bad in (0, -1, -(10**30), 2.5, 2.0, True, "3", None, math.nan):
                refused(function, f"{argument}={bad!r} is no.*above zero", **arguments | {argument: bad})
        function(**arguments | {"batch": 1} if "batch" in arguments else arguments)


def test_amounts_that_are_no_positive_numbers_are_refused():
    for name, arguments in REAL.items():
        function = getattr(napkin, name)
        assert function(**arguments) != function(**arguments | {next(iter(arguments)): 1e-9})
        for argument in arguments:
            for bad in (0, -1, -0.5, math.inf, math.nan, True, "3", None):
                refused(function, f"{argument}={bad!r}.* above zero", **arguments | {argument: bad})
    for more_than_all in (1.005, 2, 50):
        refused(napkin.training_seconds, f"mfu={more_than_all} is more than all", 1, 1, 1, more_than_all)


def test_shapes_and_sizes_out_of_reach_are_refused_at_once():
    """Also of tensors and models that no memory could hold, since nothing is made of them."""
    refused(napkin.tensor_bytes, r"shape\[1\]=0 is not above zero", (3, 0), "float32")
    refused(napkin.tensor_bytes, r"shape\[0\]=-2 is not above zero", (-2, 3), "float32")
    refused(napkin.tensor_bytes, "unknown dtype 'float7': one of float64, float32", (3,), "float7")
    refused(napkin.tensor_bytes, "unknown dtype 'half'", (3,), "half")
    assert napkin.tensor_bytes((10**9, 10**9, 10**9), "float8_e5m2") == 10**27
    refused(napkin.mlp_forward_flops, "n=0 is not above zero", 3, (4, 0, 5))
    refused(napkin.mlp_forward_flops, "two sizes or more", 3, (4,))
    refused(napkin.training_state_bytes, "unknown recipe 'adam': one of sgd", 10, "adam")
    refused(napkin.training_state_bytes, "parameters=0", 0, "sgd")
    refused(napkin.zero_bytes, "unknown stage 4: one of 0, 1, 2, 3", 10, 2, 4)
    refused(napkin.state_parts, "unknown recipe 'adam': one of sgd", 10, "adam", 2, 0)
    refused(napkin.state_parts, "unknown stage -1: one of 0, 1, 2, 3", 10, "sgd", 2, -1)
    refused(napkin.activation_bytes, "unknown attention 'fused': one of plain, flash", 1, 2, 3, 4, "fused")
    refused(napkin.korthikanti_bytes_per_layer, "unknown recompute 'all'", 1, 2, 8, 4, recompute="all")
    refused(napkin.korthikanti_bytes_per_layer, "hidden=9, heads=4", 1, 2, 9, 4)
    refused(napkin.korthikanti_bytes_per_layer, "heads=4, tensor_parallel=3", 1, 2, 8, 4, 3)
    for function in (
        *(napkin.parameter_count, napkin.parameter_parts, napkin.matmul_parameters),
        *(lambda shape: napkin.forward_flops(shape, 5), lambda shape: napkin.backward_flops(shape, 5)),
    ):
        for name in ("layers", "width", "heads", "kv_heads", "ffn", "vocabulary", "context"):
            for bad in (0, -8, 1.5):
                refused(function, f"{name}={bad}", replace(SHAPE, **{name: bad}))
        refused(
            function,
            "width=9 does not split into heads=4: choose width 8 or 12, or heads 3 or 9",
            replace(SHAPE, width=9),
        )
        refused(function, "heads=4 do not share kv_heads=3 evenly: choose kv_heads 2 or 4", replace(SHAPE, kv_heads=3))
    for sizes in ((0, 1), (5, 0), (5, 1.5)):
        refused(lambda *sizes: napkin.forward_flops(SHAPE, *sizes), "=(0|1.5) is", *sizes)


def test_the_divisors_around_a_number():
    assert napkin.divisors_around(12, 5) == [4, 6] and napkin.divisors_around(12, 6) == [6]
    assert napkin.divisors_around(7, 1) == [1] and napkin.divisors_around(7, 2) == [1, 7]
    assert napkin.divisors_around(12, 100) == [12]
    large = 10_000 * 10_001
    assert napkin.divisors_around(large, 10_000) == [10_000]
    assert napkin.divisors_around(large, 10_001) == [10_000, large]  # beyond what is looked for
    for number in (0, -1, 2.5):
        with pytest.raises(ValueError, match="number"):
            napkin.divisors_around(12, number)
