"""Tables printed in papers, as data: what they start from as numbers, what they print as the digits on the page.

Each was read in a transcription of the paper, and is reproduced from its formula by tests/napkin/test_papers.py, digit by
digit. Where a printed number does not follow from the paper's own formula, the comment says so.
"""

from dataclasses import dataclass

from utils.facts import GIGA, TERA, ModelShape, gpt_shape

# Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", arXiv:1910.02054.
# Figure 1: gigabytes per device of 7.5e9 parameters on 64 devices, by stage 0 to 3.
ZERO_FIGURE = ("120", "31.4", "16.6", "1.9")
# Table 1: {parameters: {devices: gigabytes per device by stage 1 to 3}}. The columns of 128e9 and 1e12 are cut off, not
# rounded.
ZERO_TABLE = {
    75 * GIGA // 10: {
        1: ("120", "120", "120"),
        4: ("52.5", "41.3", "30"),
        16: ("35.6", "21.6", "7.5"),
        64: ("31.4", "16.6", "1.88"),
        256: ("30.4", "15.4", "0.47"),
        1024: ("30.1", "15.1", "0.12"),
    },
    128 * GIGA: {
        1: ("2048", "2048", "2048"),
        4: ("896", "704", "512"),
        16: ("608", "368", "128"),
        64: ("536", "284", "32"),
        256: ("518", "263", "8"),
        1024: ("513", "257", "2"),
    },
    1_000 * GIGA: {
        1: ("16000", "16000", "16000"),
        4: ("7000", "5500", "4000"),
        16: ("4750", "2875", "1000"),
        64: ("4187", "2218", "250"),
        256: ("4046", "2054", "62.5"),
        1024: ("4011", "2013", "15.6"),
    },
}


@dataclass(frozen=True)
class Iteration:
    """A row of Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models",
    arXiv:2205.05198, tables 3 and 5: one training iteration on A100s, 8 devices sharing each layer.

    shape: sequences of 2,048 tokens, a vocabulary of 51,200. batch: sequences per iteration, micro_batch: sequences at once.
    seconds: with everything recomputed, and with what the paper proposes. mfu, hfu: printed, in percent.
    """

    shape: ModelShape
    devices: int
    batch: int
    micro_batch: int
    seconds_full_recompute: float
    seconds: float
    speedup: str
    mfu: str
    hfu: str


def _megatron(name: str, heads: int, width: int, layers: int) -> ModelShape:
    source = "Korthikanti et al. 2022, arXiv:2205.05198, table 3 and section 6"
    return gpt_shape(name, layers, width, heads, 2_048, source, vocabulary=51_200)


KORTHIKANTI = (
    Iteration(_megatron("22B", 64, 6_144, 48), 8, 4, 4, 1.42, 1.10, "29.0", "41.5", "43.7"),
    Iteration(_megatron("175B", 96, 12_288, 96), 64, 64, 1, 18.13, 13.75, "31.8", "51.4", "52.8"),
    Iteration(_megatron("530B", 128, 20_480, 105), 280, 280, 1, 49.05, 37.83, "29.7", "56.0", "57.0"),
    Iteration(_megatron("1T", 160, 25_600, 128), 512, 512, 1, 94.42, 71.49, "32.1", "56.3", "57.0"),
)
KORTHIKANTI_TENSOR_PARALLEL = 8
# Section 5: percent of a layer's activation bytes that selective recomputation saves, and percent of FLOPs it adds. Its
# equation 8 adds 12 B s² h per layer for them, three times the 4 B s² h of the text above it: counted, it is a third.
KORTHIKANTI_SELECTIVE = {"175B": ("70", "2.7"), "530B": ("65", "1.6")}


@dataclass(frozen=True)
class Throughput:
    """A row of Chowdhery et al. 2022, "PaLM: Scaling Language Modeling with Pathways", arXiv:2204.02311, table 3.

    heads of head_width each, tokens per sequence; tokens_per_second on all devices; peak_flops of one device, dense, in
    16 bits. mfu: printed, in percent; mfu_without_attention: where the text prints it.
    """

    name: str
    parameters: int
    layers: int
    heads: int
    head_width: int
    tokens: int
    tokens_per_second: float
    devices: int
    peak_flops: float
    mfu: str
    mfu_without_attention: str | None = None


PALM_MFU = (
    # 24.6e12 FLOP/s per V100 without attention, by 6 N: that many tokens/s on one of them. The printed 21.3 follows only
    # with attention counted three times; the paper's own 6 N + 12 L H Q T gives 20.2.
    Throughput("GPT-3", 175 * GIGA, 96, 96, 128, 2_048, 24.6 * TERA / (6 * 175 * GIGA), 1, 125 * TERA, "21.3"),
    # 0.0152 steps/s of 3,072 sequences: the "6M tokens" of Rae et al. 2021, arXiv:2112.11446, table 1, in powers of two.
    Throughput("Gopher", 280 * GIGA, 80, 128, 128, 2_048, 0.0152 * 3_072 * 2_048, 4_096, 123 * TERA, "32.5"),
    Throughput(
        "Megatron-Turing NLG",
        *(529_600_000_000, 105, 128, 160, 2_048, 65_430, 2_240, 312 * TERA),
        *("30.2", "29.7"),
    ),
    Throughput("PaLM", 540_350_000_000, 118, 48, 256, 2_048, 238_300, 6_144, 275 * TERA, "46.2", "45.7"),
)


@dataclass(frozen=True)
class Budget:
    """A row of Brown et al. 2020, "Language Models are Few-Shot Learners", arXiv:2005.14165, tables 2.1 and D.1.

    million_parameters, flops and petaflop_days (of 1e15 FLOP/s): as printed. flops is 6 x parameters x tokens.
    """

    shape: ModelShape
    million_parameters: str
    flops: str
    petaflop_days: str


GPT3_TOKENS = 300 * GIGA


def _gpt3(name: str, layers: int, width: int, heads: int) -> ModelShape:
    return gpt_shape(name, layers, width, heads, 2_048, "Brown et al. 2020, arXiv:2005.14165, table 2.1")


GPT3_COMPUTE = (
    Budget(_gpt3("GPT-3 Small", 12, 768, 12), "125", "2.25E+20", "2.60E+00"),
    Budget(_gpt3("GPT-3 Medium", 24, 1_024, 16), "356", "6.41E+20", "7.42E+00"),
    Budget(_gpt3("GPT-3 Large", 24, 1_536, 16), "760", "1.37E+21", "1.58E+01"),
    # Table 2.1 prints 24 heads of 128 for a width of 2,048; 16 of them make it.
    Budget(_gpt3("GPT-3 XL", 24, 2_048, 16), "1320", "2.38E+21", "2.75E+01"),
    Budget(_gpt3("GPT-3 2.7B", 32, 2_560, 32), "2650", "4.77E+21", "5.52E+01"),
    Budget(_gpt3("GPT-3 6.7B", 32, 4_096, 32), "6660", "1.20E+22", "1.39E+02"),
    # Table 2.1 prints a width of 5,140; 40 heads of 128 make 5,120, and so do the parameters.
    Budget(_gpt3("GPT-3 13B", 40, 5_120, 40), "12850", "2.31E+22", "2.68E+02"),
    Budget(_gpt3("GPT-3 175B", 96, 12_288, 96), "174600", "3.14E+23", "3.64E+03"),
)

# Hoffmann et al. 2022, "Training Compute-Optimal Large Language Models", arXiv:2203.15556, table A4: the shape of a model,
# and the printed ratio of its FLOPs, counted as appendix F says, to 6 N D. The digits follow if the embedding and the
# LM head are left out, which the appendix lists, and with 2,048 tokens and a vocabulary of 32,000, which it does not
# print. N has one more matrix of d x d per layer, for relative positions.


def _chinchilla(parameters: str, layers: int, width: int, heads: int) -> ModelShape:
    source = "Hoffmann et al. 2022, arXiv:2203.15556, table A4"
    return gpt_shape(parameters, layers, width, heads, 2_048, source, vocabulary=32_000)


CHINCHILLA_RATIOS = (
    (_chinchilla("73M", 10, 640, 10), "1.03"),
    (_chinchilla("305M", 20, 1_024, 16), "1.10"),
    (_chinchilla("552M", 24, 1_280, 10), "1.08"),
    (_chinchilla("1.1B", 26, 1_792, 14), "1.04"),
    (_chinchilla("1.6B", 28, 2_048, 16), "1.03"),
    (_chinchilla("6.8B", 40, 3_584, 28), "0.99"),
)
