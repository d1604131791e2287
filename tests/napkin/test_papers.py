"""Papers' tables, from the formulas of napkin to the digits on the page."""

from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal

from utils import facts
from utils.napkin import formulas as napkin
from utils.napkin import papers


def printed(value: float, digits: str, *roundings: str) -> bool:
    """Whether `value` reads as `digits` when rounded to as many places (by any of `roundings`; half up if none)."""
    step = Decimal(1).scaleb(Decimal(digits).as_tuple().exponent)
    return any(Decimal(value).quantize(step, rounding) == Decimal(digits) for rounding in roundings or [ROUND_HALF_UP])


def significant(value: float, digits: str) -> bool:
    """Whether `value` reads as `digits`, whose closing zeros before the point only fill up, as in 12,850 for 12,853."""
    step = 10 ** (len(digits) - len(digits.rstrip("0")))
    return abs(value - int(digits)) <= step / 2


def test_the_comparison_of_digits_can_fail():
    assert printed(31.40625, "31.4") and not printed(31.46, "31.4") and not printed(31.34, "31.4")
    assert printed(4187.5, "4187", ROUND_DOWN) and not printed(4187.5, "4187") and printed(6.41e20, "6.41E+20")
    assert not printed(6.416e20, "6.41E+20")
    assert significant(12_853, "12850") and not significant(12_856, "12850") and not significant(12_844, "12850")


def test_zero_figure_1():
    for stage, digits in enumerate(papers.ZERO_FIGURE):
        assert printed(napkin.zero_bytes(7_500_000_000, 64, stage) / 1e9, digits), stage


def test_zero_table_1():
    for parameters, by_devices in papers.ZERO_TABLE.items():
        assert [*by_devices] == [4**i for i in range(6)]
        for devices, row in by_devices.items():
            for stage, digits in enumerate(row, start=1):
                gigabytes = napkin.zero_bytes(parameters, devices, stage) / 1e9
                assert printed(gigabytes, digits, ROUND_HALF_UP, ROUND_DOWN), (parameters, devices, stage)
    million_millions = [napkin.zero_bytes(10**12, 64, stage) / 1e9 for stage in (1, 2)]
    assert million_millions == [4187.5, 2218.75], "printed as 4187 and 2218: cut off"


def model_flops(row) -> int:
    """Of an iteration of Korthikanti et al.: forward and twice that backward."""
    return 3 * napkin.forward_flops(row.shape, 2_048, row.batch)


def test_korthikanti_table_3_names_the_sizes_of_its_models():
    found = [napkin.parameter_count(row.shape) / 1e9 for row in papers.KORTHIKANTI]
    assert [round(billions) for billions in found] == [22, 175, 530, 1008]
    assert [row.shape.name for row in papers.KORTHIKANTI] == ["22B", "175B", "530B", "1T"]
    for row in papers.KORTHIKANTI:  # a pipeline's stage of 8 devices takes whole layers, a sequence at a time
        stages = row.devices // papers.KORTHIKANTI_TENSOR_PARALLEL
        assert row.shape.layers % stages == 0 and row.micro_batch == (4 if stages == 1 else 1)
        assert row.batch == (4 if row.shape.name == "22B" else row.devices), "otherwise as many sequences as devices"
        assert row.shape.context == 2**11


def test_korthikanti_table_5_utilisation_follows_from_its_seconds():
    """The paper's MFU from our FLOPs, its seconds and the A100's peak. The seconds are printed to 0.01, which moves the
    22B's MFU by 0.2: the printed digits must lie within what the printed seconds allow."""
    peak = facts.peak_flops("NVIDIA A100-SXM4-80GB", "bf16")
    for row in papers.KORTHIKANTI:
        s, h, L = 2_048, row.shape.width, row.shape.layers
        equation_8 = model_flops(row) + 12 * row.batch * s**2 * h * L  # what it adds for recomputation
        for flops, digits in [(model_flops(row), row.mfu), (equation_8, row.hfu)]:
            slow, fast = (100 * napkin.mfu(flops, row.seconds + e, row.devices * peak) for e in (0.005, -0.005))
            assert slow - 0.05 <= float(digits) <= fast + 0.05, (row.shape.name, slow, digits, fast)
        gain = [(row.seconds_full_recompute + e) / (row.seconds - e) - 1 for e in (-0.005, 0.005)]
        assert 100 * gain[0] - 0.05 <= float(row.speedup) <= 100 * gain[1] + 0.05


def test_korthikanti_equation_7_is_our_count():
    """72 B L s h² (1 + s/6h + v/12hL), with every fraction multiplied out."""
    for row in papers.KORTHIKANTI:
        s, h, L, v = 2_048, row.shape.width, row.shape.layers, 51_200
        assert model_flops(row) == row.batch * (72 * L * s * h**2 + 12 * L * s**2 * h + 6 * s * h * v)


def test_korthikanti_section_5_what_selective_recomputation_saves_and_costs():
    for row in papers.KORTHIKANTI:
        if row.shape.name not in papers.KORTHIKANTI_SELECTIVE:
            continue
        saved, added = papers.KORTHIKANTI_SELECTIVE[row.shape.name]
        s, h = 2_048, row.shape.width
        all_kept = napkin.korthikanti_bytes_per_layer(s, 1, h, row.shape.heads)
        selective = napkin.korthikanti_bytes_per_layer(s, 1, h, row.shape.heads, recompute="selective")
        assert printed(100 * (1 - selective / all_kept), saved)
        attention = 12 * row.batch * s**2 * h * row.shape.layers  # forward and backward, as equation 8 adds
        assert printed(100 * attention / model_flops(row), added, ROUND_HALF_UP, ROUND_DOWN)
        recomputed = row.batch * napkin.attention_flops(row.shape.layers, h, s)
        assert 3 * recomputed == attention, "one forward, as the text says, is a third of it"
    assert len(papers.KORTHIKANTI_SELECTIVE) == 2


def test_korthikanti_figure_7_what_sequence_parallelism_and_selective_recomputation_leave():
    """Of the bytes with tensor parallelism alone: "under 20%" together, and 10 % recomputing everything."""
    shares = []
    for row in papers.KORTHIKANTI:
        sizes = (2_048, row.micro_batch, row.shape.width, row.shape.heads, papers.KORTHIKANTI_TENSOR_PARALLEL)
        base = napkin.korthikanti_bytes_per_layer(*sizes)
        both = napkin.korthikanti_bytes_per_layer(*sizes, sequence_parallel=True, recompute="selective")
        shares.append((both / base, napkin.korthikanti_bytes_per_layer(*sizes, recompute="full") / base))
    assert [round(100 * both, 1) for both, _ in shares] == [16.1, 18.5, 20.2, 20.2], "under 20% for two of the four"
    assert [round(100 * full) for _, full in shares] == [8, 9, 10, 10]


def utilisation(row, attention_times: int = 1) -> float:
    """Percent of the peak by PaLM's appendix B: 6 N + 12 L H Q T FLOPs for each token."""
    attention = 3 * napkin.attention_flops(row.layers, row.heads * row.head_width, row.tokens)
    for_a_text = napkin.training_flops_6nd(row.parameters, row.tokens) + attention_times * attention
    for_a_token = for_a_text / row.tokens
    return 100 * napkin.mfu(for_a_token * row.tokens_per_second, 1, row.devices * row.peak_flops)


def test_palm_table_3():
    by_name = {row.name: row for row in papers.PALM_MFU}
    for name in ("Gopher", "Megatron-Turing NLG", "PaLM"):
        assert printed(utilisation(by_name[name]), by_name[name].mfu), name
    for name in ("Megatron-Turing NLG", "PaLM"):
        assert printed(utilisation(by_name[name], 0), by_name[name].mfu_without_attention), name
    gpt3 = by_name["GPT-3"]
    assert printed(utilisation(gpt3), "20.2") and printed(utilisation(gpt3, 3), gpt3.mfu), "attention three times"
    assert printed(utilisation(gpt3, 0) / 100 * gpt3.peak_flops / 1e12, "24.6"), "the throughput it is based on"


def test_palm_table_3_describes_models_and_machines_that_other_sources_know():
    """Parameters from the shape, by 12 d² a layer and the vocabulary; peaks from units and clock."""
    gpt3, gopher, mt_nlg, palm = papers.PALM_MFU
    assert gpt3.heads * gpt3.head_width == facts.MODELS["GPT-3 175B"].width
    assert (gpt3.layers, gpt3.tokens) == (96, 2048) and round(
        napkin.parameter_count(facts.MODELS["GPT-3 175B"]), -9
    ) == (gpt3.parameters)
    assert gpt3.peak_flops == round(80 * 1024 * 1.53e9 / 1e12) * 10**12  # a V100: 80 SMs of 512 fused multiply-adds
    assert gopher.peak_flops == round(4 * 128**2 * 2 * 0.94e9 / 1e12) * 10**12  # TPU v3: four arrays of 128 x 128
    assert palm.peak_flops == round(8 * 128**2 * 2 * 1.05e9 / 1e12) * 10**12  # TPU v4: eight
    assert mt_nlg.peak_flops == facts.peak_flops("NVIDIA A100-SXM4-80GB", "bf16")
    megatron = papers.KORTHIKANTI[2].shape
    assert (mt_nlg.layers, mt_nlg.heads) == (megatron.layers, megatron.heads)
    assert mt_nlg.heads * mt_nlg.head_width == megatron.width
    assert mt_nlg.parameters == round(napkin.parameter_count(megatron), -8)
    assert mt_nlg.tokens_per_second == round(1_920 * 2_048 / 60.1, -1), "Smith et al. 2022: 60.1 s for 1,920 sequences"
    assert mt_nlg.devices == 280 * 8 and palm.devices == 2 * 3_072, "280 servers of 8; two pods of 3,072"
    assert {row.tokens for row in papers.PALM_MFU} == {2**11}
    assert gopher.devices == 4 * 1_024 and gopher.tokens_per_second == 0.0152 * (6 * 2**20), (
        "pods; steps of 6 Mi tokens"
    )
    assert f"{palm.tokens_per_second / 1_000}K" == "238.3K"
    wide = gopher.heads * gopher.head_width
    # Relative positions take one more matrix of d x d in each of Gopher's layers.
    assert round(13 * gopher.layers * wide**2 + 32_000 * wide, -9) == gopher.parameters
    palm_by_parts = palm_parameters(palm.layers, 18_432, palm.heads, palm.head_width)
    assert palm_by_parts == 540_356_474_880 and palm_by_parts // 10**7 * 10**7 == palm.parameters, "cut off"


def palm_parameters(layers: int, width: int, heads: int, head_width: int) -> int:
    """One key and value for all heads, a gated inner width of 4 d, tied embeddings of 256,000 tokens, norms' scales."""
    inner, ffn = heads * head_width, 4 * width
    layer = 2 * width * inner + 2 * width * head_width + 3 * width * ffn + width
    return layers * layer + 256_000 * width + width


def test_gpt_3_table_d1_is_6_n_d():
    for row in papers.GPT3_COMPUTE:
        counted = napkin.parameter_count(row.shape)
        assert significant(counted / 1e6, row.million_parameters), row.shape.name
        flops = napkin.training_flops_6nd(int(row.million_parameters) * 10**6, papers.GPT3_TOKENS)
        assert printed(flops, row.flops), row.shape.name
        assert printed(flops / (1e15 * napkin.DAY), row.petaflop_days), row.shape.name
        assert row.shape.width % row.shape.heads == 0 and row.shape.context == 2_048
    widths_of_a_head = [row.shape.width // row.shape.heads for row in papers.GPT3_COMPUTE]
    assert widths_of_a_head == [64, 64, 96, 128, 80, 128, 128, 128]
    assert papers.GPT3_COMPUTE[-1].shape.width == facts.MODELS["GPT-3 175B"].width


def test_2_n_against_the_counted_model():
    """How much more than 2 N per token a forward is, in percent: attention, less the embedding if it is untied."""
    for name, tokens, percent in [
        *[("GPT-2", 1_024, "14.4"), ("GPT-2 XL", 1_024, "9.9"), ("GPT-3 175B", 2_048, "2.7")],
        *[("LLaMA-3 8B", 2_048, "0.1"), ("LLaMA-3 70B", 2_048, "2.3"), ("1.27B", 2_048, "15.8")],
    ]:
        shape = facts.MODELS[name]
        more = napkin.forward_flops(shape, tokens) / (2 * napkin.parameter_count(shape) * tokens) - 1
        assert printed(100 * more, percent), name


def test_chinchilla_table_a4_follows_without_the_two_tables():
    sizes = {"M": 10**6, "B": 10**9}
    heads = []
    for shape, digits in papers.CHINCHILLA_RATIOS:
        T, d, V = shape.context, shape.width, shape.vocabulary
        assert (T, V) == (2**11, 32_000) and napkin.parameter_count(shape) > 0
        parameters = 13 * shape.layers * d**2 + V * d
        assert printed(parameters / sizes[shape.name[-1]], shape.name[:-1], ROUND_HALF_UP, ROUND_DOWN)
        layers = napkin.forward_flops(shape, T) - napkin.matmul_flops(T, d, V) + 3 * shape.heads * T**2 * shape.layers
        assert printed(3 * layers / napkin.training_flops_6nd(parameters, T), digits), shape.name
        heads.append(d / shape.heads)
    assert heads == [64, 64, 128, 128, 128, 128], "the table's k/q size"
    layers = [shape.layers for shape, _ in papers.CHINCHILLA_RATIOS]  # digits too few to tell 25 from 26
    assert layers == [10, 20, 24, 26, 28, 40], "the table's num_layers"
