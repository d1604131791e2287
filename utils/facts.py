"""From outside this course, each number with its source: data files, peaks of processors, sizes of models."""

from dataclasses import dataclass

CACHE_NAME = "honest-training-loop"  # of the folder, in the user's cache, that keeps what was downloaded


@dataclass(frozen=True)
class OutsideFile:
    """One published file.

    path: where it lies inside a data folder; urls: where it can be had, tried in this order;
    md5: of its bytes, as lower-case hex; size: in bytes.
    """

    path: str
    urls: tuple[str, ...]
    md5: str
    size: int


# FashionMNIST: Xiao, Rasul, Vollgraf, "Fashion-MNIST: a Novel Image Dataset for Benchmarking Machine Learning
# Algorithms", 2017, arXiv:1708.07747. Files, MD5 sums and class names: the table in the README of
# https://github.com/zalandoresearch/fashion-mnist. Sizes: those of the files with these sums.
FASHION_MNIST_HOSTS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)


def _fashion_file(name: str, md5: str, size: int) -> OutsideFile:
    return OutsideFile(f"fashion-mnist/{name}", tuple(host + name for host in FASHION_MNIST_HOSTS), md5, size)


FASHION_MNIST = {
    "train images": _fashion_file("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26_421_880),
    "train labels": _fashion_file("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe", 29_515),
    "test images": _fashion_file("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79", 4_422_102),
    "test labels": _fashion_file("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310", 5_148),
}
FASHION_MNIST_TRAIN = 60_000  # images, 6,000 of each class
FASHION_MNIST_TEST = 10_000  # images, 1,000 of each class
FASHION_MNIST_CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)

# TinyShakespeare: the sample text of https://github.com/karpathy/char-rnn (2015). Its author publishes no
# checksum: the MD5 is the one of the 1,115,394 bytes that the address serves.
TINY_SHAKESPEARE = OutsideFile(
    "tinyshakespeare/input.txt",
    (
        "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
        "https://github.com/karpathy/char-rnn/raw/master/data/tinyshakespeare/input.txt",
    ),
    "6fb458f1232090904fb40fe944165e91",
    1_115_394,
)
TINY_SHAKESPEARE_CHARACTERS = 1_115_394  # all of them ASCII, hence as many bytes
TINY_SHAKESPEARE_SYMBOLS = 65  # distinct characters


TERA = 10**12
GIGA = 10**9

PRECISIONS = ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8")


@dataclass(frozen=True)
class Processor:
    """Figures from the datasheet of one GPU or CPU.

    name: as torch.cuda.get_device_name reports it. bandwidth: of its memory, in bytes/s. memory: in bytes, the
    decimal gigabytes that the datasheet names (most drivers report up to 7 % more; a T4, an L4 or an A10G gives a few
    percent to ECC and reports less).
    flops: peak FLOP/s by precision, dense: structured sparsity doubles the figure on a datasheet, and no
    matrix of this course is sparse. fp64 and fp32 are the rates of matmuls, on tensor cores where they take fp64.
    A precision that the chip lacks is absent.
    """

    name: str
    flops: dict[str, float]
    bandwidth: float
    memory: int
    source: str


# The chip of both the H100 and the H200; they differ in memory. Their datasheets print the tensor-core figures with
# sparsity (989, 1,979, 1,979 and 3,958): dense is half.
_HOPPER = {
    "fp64": 67 * TERA,
    "fp32": 67 * TERA,
    "tf32": 989 * TERA / 2,
    "bf16": 1_979 * TERA / 2,
    "fp16": 1_979 * TERA / 2,
    "fp8": 3_958 * TERA / 2,
}

PROCESSORS = (
    Processor(
        "NVIDIA A100-SXM4-80GB",
        {
            "fp64": 19.5 * TERA,
            "fp32": 19.5 * TERA,
            "tf32": 156 * TERA,
            "bf16": 312 * TERA,
            "fp16": 312 * TERA,
        },
        2_039 * GIGA,
        80 * GIGA,
        "NVIDIA A100 Tensor Core GPU datasheet (2021), column A100 80GB SXM",
    ),
    Processor(
        "NVIDIA H100 80GB HBM3",  # this is the SXM module: the others call themselves H100 PCIe and H100 NVL
        dict(_HOPPER),
        3.35 * TERA,
        80 * GIGA,
        "NVIDIA H100 Tensor Core GPU datasheet (2023), column H100 SXM",
    ),
    Processor(
        "NVIDIA H200",  # also the SXM module; the other is the H200 NVL
        dict(_HOPPER),
        4.8 * TERA,
        141 * GIGA,
        "NVIDIA H200 Tensor Core GPU datasheet (2023), column H200 SXM",
    ),
    Processor(
        "NVIDIA B200",
        # Printed with sparsity: 2.2, 4.5, 4.5 and 9 thousand. NVIDIA's brief of 2024 said
        # more: 80 TFLOP/s in fp32, 40 in fp64, and 8 TB/s.
        {
            "fp64": 37 * TERA,
            "fp32": 75 * TERA,
            "tf32": 2_200 * TERA / 2,
            "bf16": 4_500 * TERA / 2,
            "fp16": 4_500 * TERA / 2,
            "fp8": 9_000 * TERA / 2,
        },
        7.7 * TERA,
        180 * GIGA,
        "NVIDIA Blackwell datasheet (2025), column HGX B200, individual GPU; tensor-core figures halved to dense",
    ),
    Processor(
        "NVIDIA GeForce RTX 4090",
        # bf16, fp16 and fp8 with sums in fp32, which is what torch's matmul does; sums in fp16 would be twice as fast.
        {
            "fp64": 1.29 * TERA,
            "fp32": 82.6 * TERA,
            "tf32": 82.6 * TERA,
            "bf16": 165.2 * TERA,
            "fp16": 165.2 * TERA,
            "fp8": 330.3 * TERA,
        },
        1_008 * GIGA,
        24 * GIGA,
        "NVIDIA Ada GPU Architecture whitepaper (2022), appendix A, column GeForce RTX 4090",
    ),
    Processor(
        "AMD Ryzen 7 7840U",  # a laptop's processor; the name is the maker's, torch reports none for a CPU
        # 8 cores at 3.3 GHz (base), each with two 256-bit units that multiply and add in one cycle:
        # 8 x 3.3e9 x 2 units x 8 values of 32 bits x 2 FLOPs = 844.8e9; half as many values of 64 bits.
        # What its bf16 units (AVX512_BF16) do is not on that page: no figure.
        {"fp64": 422.4 * GIGA, "fp32": 844.8 * GIGA},
        89.6 * GIGA,  # two channels of 8 bytes, DDR5-5600
        32 * GIGA,  # usual in such a laptop; the processor supports more
        "AMD product page of the Ryzen 7 7840U (2023): cores, base clock, memory channels and speed; the peak derived",
    ),
)


def _geforce(model: str, cores: int, gigahertz: float, gigabytes_per_second: float, gigabytes: int) -> Processor:
    """A GeForce RTX of 2020 to 2025: two FLOPs a core and cycle in fp32, at the boost clock.

    Against fp32, by the appendices of NVIDIA's whitepapers (GA102, 2021; Ada, 2022; RTX Blackwell, 2025): tf32 as fast,
    bf16 and fp16 twice and fp8 four times as fast with sums in fp32, which is what torch's matmul does; fp64 a 64th. No fp8
    before the 40 series.
    """
    series = int(model[0])  # 3: the 30 series
    fp32 = 2 * cores * gigahertz * GIGA
    flops = {"fp64": fp32 / 64, "fp32": fp32, "tf32": fp32, "bf16": 2 * fp32, "fp16": 2 * fp32}
    return Processor(
        f"NVIDIA GeForce RTX {model}",
        flops if series < 4 else flops | {"fp8": 4 * fp32},
        gigabytes_per_second * GIGA,
        gigabytes * GIGA,
        f"NVIDIA's product page of the GeForce RTX {model}: cores, boost clock, memory and its bandwidth; the peaks derived",
    )


# What students have besides these: in Colab, in other clouds, at home. Only the calculator that asks what fits has them.
OTHER_GPUS = (
    Processor(
        "Tesla T4",  # Colab's free GPU: neither bf16 nor fp8 units
        {"fp64": 8.1 * TERA / 32, "fp32": 8.1 * TERA, "fp16": 65 * TERA},
        320 * GIGA,
        16 * GIGA,
        "NVIDIA T4 product brief (2020); fp64: CUDA C++ programming guide, throughput by compute capability, 7.5",
    ),
    Processor(
        "NVIDIA L4",
        # The tensor-core figures are printed with sparsity: 120, 242, 242 and 485.
        {
            "fp64": 30.3 * TERA / 64,
            "fp32": 30.3 * TERA,
            "tf32": 120 * TERA / 2,
            "bf16": 242 * TERA / 2,
            "fp16": 242 * TERA / 2,
            "fp8": 485 * TERA / 2,
        },
        300 * GIGA,
        24 * GIGA,
        "NVIDIA L4 Tensor Core GPU datasheet (2023); fp64: CUDA C++ programming guide, compute capability 8.9",
    ),
    Processor(
        "NVIDIA A10G",
        {"fp64": 35 * TERA / 64, "fp32": 35 * TERA, "tf32": 35 * TERA, "bf16": 70 * TERA, "fp16": 70 * TERA},
        600 * GIGA,
        24 * GIGA,
        "NVIDIA A10G datasheet for AWS (2022); fp64: CUDA C++ programming guide, compute capability 8.6",
    ),
    _geforce("3060", 3_584, 1.78, 360, 12),
    _geforce("3070", 5_888, 1.73, 448, 8),
    _geforce("3080", 8_704, 1.71, 760, 10),
    _geforce("3090", 10_496, 1.70, 936, 24),
    _geforce("4060", 3_072, 2.46, 272, 8),
    _geforce("4070", 5_888, 2.48, 504, 12),
    _geforce("4080", 9_728, 2.51, 716.8, 16),
    _geforce("5060", 3_840, 2.50, 448, 8),
    _geforce("5070", 6_144, 2.51, 672, 12),
    _geforce("5080", 10_752, 2.62, 960, 16),
    _geforce("5090", 21_760, 2.41, 1_792, 32),
)


def find_processor(device_name: str) -> Processor:
    """The processor that calls itself exactly `device_name`.

    Exactly, because a name that merely resembles a known one is another chip: an "NVIDIA H100 PCIe" and an
    "NVIDIA GeForce RTX 4090 Laptop GPU" are slower, a MIG slice is a fraction. LookupError for all others.
    """
    known = {processor.name: processor for processor in (*PROCESSORS, *OTHER_GPUS)}
    if device_name in known:
        return known[device_name]
    raise LookupError(
        f"no datasheet figures for {device_name!r}, only for {', '.join(map(repr, known))}: add them to utils/facts.py, "
        "with their source, rather than borrow another chip's"
    )


def peak_flops(device_name: str, precision: str) -> float:
    """Dense peak in FLOP/s of the processor that torch.cuda.get_device_name calls `device_name`.

    precision: "fp64", "fp32", "tf32" (fp32 tensors multiplied on tensor cores), "bf16", "fp16" or "fp8".
    LookupError for an unknown processor or one that lacks the precision (never a default), ValueError for a
    precision that none has.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}: one of {', '.join(PRECISIONS)}")
    flops = find_processor(device_name).flops
    if precision not in flops:
        raise LookupError(f"{device_name!r} has no {precision} units: choose among {', '.join(flops)}")
    return flops[precision]


def memory_bandwidth(device_name: str) -> float:
    """Peak memory bandwidth in bytes/s of the processor called `device_name`, or LookupError."""
    return find_processor(device_name).bandwidth


def memory_size(device_name: str) -> int:
    """Memory in bytes of the processor called `device_name`, or LookupError."""
    return find_processor(device_name).memory


@dataclass(frozen=True)
class NumberFormat:
    """A binary floating-point format: a sign bit, `exponent` bits with a bias of half their range, `mantissa` bits.

    dtype: torch's name of what stores it. infinities: an exponent of all ones means infinity or NaN; without them it means
    numbers too, and only the last code is NaN.
    """

    name: str
    dtype: str
    exponent: int
    mantissa: int
    infinities: bool
    source: str


_IEEE = "IEEE 754-2019, table 3.5"
_OCP = "Micikevicius et al. 2022, arXiv:2209.05433, table 1"
FORMATS = {
    form.name: form
    for form in (
        NumberFormat("fp64", "float64", 11, 52, True, _IEEE),
        NumberFormat("fp32", "float32", 8, 23, True, _IEEE),
        NumberFormat("tf32", "float32", 8, 10, True, "NVIDIA A100 whitepaper (2020): the upper 19 bits of a float32"),
        NumberFormat("fp16", "float16", 5, 10, True, _IEEE),
        NumberFormat("bf16", "bfloat16", 8, 7, True, "Kalamkar et al. 2019, arXiv:1905.12322, section 3"),
        NumberFormat("fp8 e4m3", "float8_e4m3fn", 4, 3, False, _OCP),
        NumberFormat("fp8 e5m2", "float8_e5m2", 5, 2, True, _OCP),
    )
}


@dataclass(frozen=True)
class ModelShape:
    """The sizes of a decoder-only Transformer, from which its parameters, FLOPs and bytes follow.

    width: of the residual stream; a head is width / heads wide. kv_heads: heads of keys and values, fewer than
    heads where queries share them. ffn: inner width of the MLP; gated: it has three matrices instead
    of two. context: longest text in tokens. tied: the token embedding is also the LM head. learned_positions: a
    table of `context` vectors. biases: on all linear layers but the LM head. norm_biases: a norm adds a bias
    (LayerNorm) and does not only scale (RMSNorm).
    """

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    ffn: int
    gated: bool
    vocabulary: int
    context: int
    tied: bool
    learned_positions: bool
    biases: bool
    norm_biases: bool
    source: str


def gpt_shape(
    name: str, layers: int, width: int, heads: int, context: int, source: str, vocabulary: int = 50_257
) -> ModelShape:
    """A shape of GPT-2's kind, by default with its vocabulary."""
    return ModelShape(
        name,
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=heads,
        ffn=4 * width,
        gated=False,
        vocabulary=vocabulary,
        context=context,
        tied=True,
        learned_positions=True,
        biases=True,
        norm_biases=True,
        source=source,
    )


def _llama(
    name: str, layers: int, width: int, heads: int, kv_heads: int, ffn: int, vocabulary: int, context: int, source: str
) -> ModelShape:
    return ModelShape(
        name,
        layers=layers,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        ffn=ffn,
        gated=True,
        vocabulary=vocabulary,
        context=context,
        tied=False,
        learned_positions=False,
        biases=False,
        norm_biases=False,
        source=source,
    )


_GPT_2 = "Radford et al. 2019, table 2; heads and vocabulary: the hparams.json of the released weights"
_GPT_3 = "Brown et al. 2020, arXiv:2005.14165, table 2.1; the vocabulary is GPT-2's"
_LLAMA_2 = "Touvron et al. 2023, arXiv:2307.09288, table 1; params.json of the released weights"
_LLAMA_3 = "Grattafiori et al. 2024, arXiv:2407.21783, table 3; params.json of the first release, of 8,192 tokens"
MODELS = {
    shape.name: shape
    for shape in (
        gpt_shape("GPT-2", 12, 768, 12, 1_024, _GPT_2),
        gpt_shape("GPT-2 XL", 48, 1_600, 25, 1_024, _GPT_2),
        gpt_shape("GPT-3 175B", 96, 12_288, 96, 2_048, _GPT_3),
        _llama("LLaMA-2 7B", 32, 4_096, 32, 32, 11_008, 32_000, 4_096, _LLAMA_2),
        _llama("LLaMA-3 8B", 32, 4_096, 32, 8, 14_336, 128_256, 8_192, _LLAMA_3),
        _llama("LLaMA-3 70B", 80, 8_192, 64, 8, 28_672, 128_256, 8_192, _LLAMA_3),
        ModelShape(  # blocks as GPT-2's; its positions are computed, not learned
            "1.27B",
            layers=24,
            width=2_048,
            heads=16,
            kv_heads=16,
            ffn=8_192,
            gated=False,
            vocabulary=32_000,
            context=2_048,
            tied=True,
            learned_positions=False,
            biases=True,
            norm_biases=True,
            source="this course: the model that eight H100s train in a week",
        ),
    )
}
