"""Numbers from outside this course, each with its source: data files and their checksums, GPU peaks."""

from dataclasses import dataclass


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


@dataclass(frozen=True)
class Gpu:
    """What a datasheet promises of one GPU.

    name: as torch.cuda.get_device_name reports it. bandwidth: of its memory, in bytes/s.
    flops: peak FLOP/s by precision, dense: structured sparsity doubles the figure on a datasheet, and no
    matrix of this course is sparse.
    """

    name: str
    flops: dict[str, float]
    bandwidth: float
    source: str


GPUS = (
    Gpu(
        "NVIDIA A100-SXM4-80GB",
        {"fp32": 19.5e12, "tf32": 156e12, "bf16": 312e12, "fp16": 312e12},
        2.039e12,
        "NVIDIA A100 Tensor Core GPU datasheet (2021), column A100 80GB SXM",
    ),
    Gpu(
        "NVIDIA H100 80GB HBM3",  # this is the SXM module: the others call themselves H100 PCIe and H100 NVL
        # The datasheet prints the tensor-core figures with sparsity (989, 1,979 and 1,979): dense is half.
        {"fp32": 67e12, "tf32": 989e12 / 2, "bf16": 1_979e12 / 2, "fp16": 1_979e12 / 2},
        3.35e12,
        "NVIDIA H100 Tensor Core GPU datasheet (2023), column H100 SXM",
    ),
    Gpu(
        "NVIDIA H200",  # likewise SXM: the other one is the H200 NVL
        {"fp32": 67e12, "tf32": 989e12 / 2, "bf16": 1_979e12 / 2, "fp16": 1_979e12 / 2},
        4.8e12,
        "NVIDIA H200 Tensor Core GPU datasheet (2023), column H200 SXM; tensor-core figures halved to dense",
    ),
    Gpu(
        "NVIDIA B200",
        {"fp32": 80e12, "tf32": 1_100e12, "bf16": 2_250e12, "fp16": 2_250e12},
        8e12,
        "NVIDIA Blackwell Architecture Technical Brief (2024), HGX B200, one GPU; tensor-core figures, dense",
    ),
    Gpu(
        "NVIDIA GeForce RTX 4090",
        # fp16 with sums in fp32, which is what torch's matmul does; with sums in fp16 it would be twice that.
        {"fp32": 82.6e12, "tf32": 82.6e12, "bf16": 165.2e12, "fp16": 165.2e12},
        1.008e12,
        "NVIDIA Ada GPU Architecture whitepaper (2022), appendix A, column GeForce RTX 4090",
    ),
)
PRECISIONS = ("fp32", "tf32", "bf16", "fp16")


def find_gpu(device_name: str) -> Gpu:
    """The GPU that calls itself exactly `device_name`.

    Exactly, because a name that merely resembles a known one is another chip: an "NVIDIA H100 PCIe" and an
    "NVIDIA GeForce RTX 4090 Laptop GPU" are slower, a MIG slice is a fraction. LookupError for all others.
    """
    for gpu in GPUS:
        if gpu.name == device_name:
            return gpu
    known = ", ".join(repr(gpu.name) for gpu in GPUS)
    raise LookupError(
        f"no datasheet figures for {device_name!r}, only for {known}: add them to GPUS in utils/facts.py, "
        "with their source, rather than borrow another GPU's"
    )


def peak_flops(device_name: str, precision: str) -> float:
    """Dense peak in FLOP/s of the GPU that torch.cuda.get_device_name calls `device_name`.

    precision: "fp32", "tf32" (fp32 tensors multiplied on tensor cores), "bf16" or "fp16".
    LookupError for an unknown GPU (never a default), ValueError for an unknown precision.
    """
    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}: one of {', '.join(PRECISIONS)}")
    return find_gpu(device_name).flops[precision]


def memory_bandwidth(device_name: str) -> float:
    """Peak memory bandwidth in bytes/s of the GPU called `device_name`, or LookupError."""
    return find_gpu(device_name).bandwidth
