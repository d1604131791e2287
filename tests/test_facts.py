"""Numbers from outside: each against another number from outside, and no answer for what is not in the table."""

import gzip
import math
import os
from pathlib import Path

import pytest
import torch

from utils import facts
from utils.data import download


def test_known_gpus_have_their_dense_figures():
    assert facts.peak_flops("NVIDIA A100-SXM4-80GB", "bf16") == 312e12
    assert facts.peak_flops("NVIDIA H100 80GB HBM3", "bf16") == 989.5e12  # with sparsity it would be 1,979
    assert facts.peak_flops("NVIDIA H200", "tf32") == 494.5e12
    assert facts.memory_bandwidth("NVIDIA H200") == 4.8e12
    assert facts.memory_size("NVIDIA H100 80GB HBM3") == 80_000_000_000


def test_every_entry_is_complete_and_says_where_it_is_from():
    for processor in facts.PROCESSORS:
        flops = processor.flops
        assert {"fp64", "fp32"} <= set(flops) and list(flops) == [name for name in facts.PRECISIONS if name in flops]
        # The order that the hardware imposes, which a slipped decimal or a sparse figure breaks.
        assert flops["fp64"] <= flops["fp32"]
        if "tf32" in flops:
            assert flops["fp32"] <= flops["tf32"] < flops["bf16"] == flops["fp16"]
            assert 50 < flops["bf16"] / processor.bandwidth < 500  # FLOP per byte at the ridge
        maker = processor.name.split()[0].replace("Tesla", "NVIDIA")
        assert processor.source.startswith(maker) and isinstance(processor.memory, int)
    assert len({processor.name for processor in facts.PROCESSORS}) == len(facts.PROCESSORS)


# Per chip: units (SMs or cores), and for each precision the clock in GHz at which they run it, the FLOPs of one unit in
# one cycle, whether the datasheet prints it with sparsity, and the places to which it prints TFLOP/s (-2: hundreds).
UNITS = {
    "NVIDIA A100-SXM4-80GB": (
        108,
        {
            "fp64": (1.41, 128, 1, 1),
            "fp32": (1.41, 128, 1, 1),
            "tf32": (1.41, 1_024, 1, 0),
            "bf16": (1.41, 2_048, 1, 0),
        },
    ),
    "NVIDIA H100 80GB HBM3": (
        132,
        {"fp64": (1.98, 256, 1, 0), "fp32": (1.98, 256, 1, 0), "tf32": (1.83, 2_048, 2, 0), "bf16": (1.83, 4_096, 2, 0)}
        | {"fp8": (1.83, 8_192, 2, 0)},
    ),
    "NVIDIA B200": (
        148,
        {
            "fp64": (1.98, 128, 1, 0),
            "fp32": (1.98, 256, 1, 0),
            "tf32": (1.86, 4_096, 2, -2),
            "bf16": (1.86, 8_192, 2, -2),
        }
        | {"fp8": (1.86, 16_384, 2, -2)},
    ),
    "NVIDIA GeForce RTX 4090": (
        128,
        {"fp64": (2.52, 4, 1, 2), "fp32": (2.52, 256, 1, 1), "tf32": (2.52, 256, 1, 1), "bf16": (2.52, 512, 1, 1)}
        | {"fp8": (2.52, 1_024, 1, 1)},
    ),
    "AMD Ryzen 7 7840U": (8, {"fp64": (3.3, 2 * 4 * 2, 1, 4), "fp32": (3.3, 2 * 8 * 2, 1, 4)}),
}
UNITS["NVIDIA H200"] = UNITS["NVIDIA H100 80GB HBM3"]  # the same chip with other memory


def test_peaks_are_units_times_clock_times_flops_per_cycle():
    """From the other pages of the datasheets, to the printed digit."""
    for name, (units, rates) in UNITS.items():
        processor = facts.find_processor(name)
        rates = rates | ({"fp16": rates["bf16"]} if "bf16" in rates else {})
        assert set(rates) == set(processor.flops)
        for precision, (gigahertz, per_cycle, sparse, places) in rates.items():
            tera = units * gigahertz * per_cycle * sparse / 1_000
            # The Blackwell datasheet cuts off what it does not print (37.5 is 37), the others round.
            printed = math.floor(tera * 10**places) / 10**places if "B200" in processor.name else round(tera, places)
            assert processor.flops[precision] == printed * 1e12 / sparse, (processor.name, precision)


def test_bandwidth_is_width_of_the_bus_times_rate_of_a_pin():
    """Bits of the bus, Gbit/s on each, and the places to which the datasheet prints GB/s."""
    buses = {
        "NVIDIA A100-SXM4-80GB": (5_120, 3.186, 0),
        "NVIDIA H100 80GB HBM3": (5_120, 5.238, -1),
        "NVIDIA H200": (6_144, 6.2, -2),
        "NVIDIA B200": (8_192, 7.5, -2),
        "NVIDIA GeForce RTX 4090": (384, 21, 0),
        "AMD Ryzen 7 7840U": (2 * 64, 5.6, 1),
    }
    for name, (bits, gigabits, places) in buses.items():
        assert facts.memory_bandwidth(name) == round(bits / 8 * gigabits, places) * 1e9, name


def test_memory_is_that_of_its_parts_or_a_share_of_its_system():
    """(GB, how many): chips of the card, modules of the laptop; or what a DGX system of eight names as its total."""
    parts = {
        "NVIDIA A100-SXM4-80GB": (640, 1 / 8),
        "NVIDIA H100 80GB HBM3": (640, 1 / 8),
        "NVIDIA H200": (1_128, 1 / 8),
        "NVIDIA B200": (1_440, 1 / 8),
        "NVIDIA GeForce RTX 4090": (2, 12),
        "AMD Ryzen 7 7840U": (16, 2),
    }
    for name, (gigabytes, count) in parts.items():
        assert facts.memory_size(name) == gigabytes * count * 10**9, name


def test_shapes_of_models_have_heads_and_inner_widths_as_their_papers_say():
    """What no count of parameters would notice: how the width is cut into heads, and how long a text may be."""
    found = {
        name: (shape.width // shape.heads, shape.heads // shape.kv_heads, shape.ffn / shape.width, shape.context)
        for name, shape in facts.MODELS.items()
    }
    assert found == {
        "GPT-2": (64, 1, 4, 2**10),
        "GPT-2 XL": (64, 1, 4, 2**10),
        "GPT-3 175B": (128, 1, 4, 2**11),
        "LLaMA-2 7B": (128, 1, 2.6875, 2**12),  # 2/3 of 4 widths, up to the next multiple of 256
        "LLaMA-3 8B": (128, 4, 3.5, 2**13),  # 1.3 times that, up to the next multiple of 1,024
        "LLaMA-3 70B": (128, 8, 3.5, 2**13),
        "1.27B": (128, 1, 4, 2**11),
    }
    for shape in facts.MODELS.values():
        assert shape.width % shape.heads == shape.heads % shape.kv_heads == 0 and shape.source
    assert facts.MODELS["LLaMA-2 7B"].ffn == math.ceil(4_096 * 8 / 3 / 256) * 256
    assert facts.MODELS["LLaMA-3 8B"].ffn == math.ceil(1.3 * 4_096 * 8 / 3 / 1_024) * 1_024


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA H100 PCIe",
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA A100 80GB PCIe",
        "NVIDIA A100-PCIE-40GB",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA GeForce RTX 4090 D",
        "cpu",
        "",
    ],
)
def test_another_gpu_gets_no_borrowed_figure(name):
    with pytest.raises(LookupError, match="NVIDIA H100 80GB HBM3") as error:
        facts.peak_flops(name, "bf16")
    assert repr(name) in str(error.value)
    with pytest.raises(LookupError):
        facts.memory_bandwidth(name)


def test_unknown_precision_is_refused():
    with pytest.raises(ValueError, match=r"'fp4'.*fp64, fp32, tf32, bf16, fp16, fp8"):
        facts.peak_flops("NVIDIA H200", "fp4")


def test_a_precision_that_a_chip_lacks_has_no_figure():
    with pytest.raises(LookupError, match="'NVIDIA A100-SXM4-80GB' has no fp8 units: choose among fp64, fp32, tf32"):
        facts.peak_flops("NVIDIA A100-SXM4-80GB", "fp8")


def test_outside_files_are_described_whole():
    files = [*facts.FASHION_MNIST.values(), facts.TINY_SHAKESPEARE]
    assert len({file.md5 for file in files}) == len({file.path for file in files}) == 5
    for file in files:
        assert len(file.md5) == 32 and int(file.md5, 16)
        assert len(file.urls) >= 2 and all(url.endswith(file.path.split("/")[1]) for url in file.urls)
    assert len(set(facts.FASHION_MNIST_CLASSES)) == 10


def test_data_sets_have_as_many_examples_as_their_papers_say():
    assert len(facts.FASHION_MNIST_CLASSES) * 6_000 == facts.FASHION_MNIST_TRAIN
    assert len(facts.FASHION_MNIST_CLASSES) * 1_000 == facts.FASHION_MNIST_TEST
    assert facts.TINY_SHAKESPEARE.size == facts.TINY_SHAKESPEARE_CHARACTERS, "ASCII: a byte each"
    assert 2 * 26 + len("\n !$&',-.3:;?") == facts.TINY_SHAKESPEARE_SYMBOLS


def test_published_files_have_the_sizes_and_counts():
    if "COURSE_DATA" not in os.environ:
        pytest.skip("needs the published files: set COURSE_DATA")
    folder = download.COURSE_ROOT / os.environ["COURSE_DATA"]
    for file in (*facts.FASHION_MNIST.values(), facts.TINY_SHAKESPEARE):
        assert Path(folder, file.path).stat().st_size == file.size, file.path
    for part, count in [("train", facts.FASHION_MNIST_TRAIN), ("test", facts.FASHION_MNIST_TEST)]:
        with gzip.open(folder / facts.FASHION_MNIST[f"{part} labels"].path) as labels:
            assert int.from_bytes(labels.read(8)[4:], "big") == count
    assert len(set(Path(folder, facts.TINY_SHAKESPEARE.path).read_text())) == facts.TINY_SHAKESPEARE_SYMBOLS


def test_number_formats_are_those_of_torch():
    """Digits from the step after 1, the exponent from the largest number's, infinities by making one."""
    for form in facts.FORMATS.values():
        dtype = getattr(torch, form.dtype)
        info = torch.finfo(dtype)
        step = info.eps if form.name != "tf32" else 2.0**-10  # torch has no such dtype
        assert form.mantissa == -math.log2(step)
        assert form.exponent == math.frexp(info.max)[1].bit_length()
        assert form.infinities == ("fn" not in form.dtype)
        if form.name != "tf32":
            assert 1 + form.exponent + form.mantissa == info.bits
    assert facts.FORMATS["tf32"].exponent == facts.FORMATS["fp32"].exponent


# The whitepapers' appendices: TFLOP/s in fp32, bf16 and fp8, the last two with sums in fp32.
PRINTED = {
    "3070": (20.3, 40.6),
    "3080": (29.8, 59.5),
    "3090": (35.6, 71),
    "4070": (29.1, 58.3, 116.6),
    "4080": (48.7, 97.5, 194.9),
    "5070": (30.9, 61.7, 123.5),
    "5080": (56.3, 112.6, 225.1),
    "5090": (104.8, 209.5, 419),
}
# From the data sheets, in TFLOP/s, without sparsity; fp64 is a 32nd of fp32, later a 64th.
SHEETS = {
    "Tesla T4": {"fp64": 0.253125, "fp32": 8.1, "fp16": 65},
    "NVIDIA L4": {"fp64": 0.4734375, "fp32": 30.3, "tf32": 60, "bf16": 121, "fp16": 121, "fp8": 242.5},
    "NVIDIA A10G": {"fp64": 0.546875, "fp32": 35, "tf32": 35, "bf16": 70, "fp16": 70},
    # 2 · cores · clock, and multiples of it
    "NVIDIA GeForce RTX 3060": {
        "fp64": 0.19936,
        "fp32": 12.75904,
        "tf32": 12.75904,
        "bf16": 25.51808,
        "fp16": 25.51808,
    },
    "NVIDIA GeForce RTX 4060": {"fp32": 15.11424, "fp8": 60.45696},
    "NVIDIA GeForce RTX 5060": {"fp32": 19.2, "fp8": 76.8},
}
# Bits of the bus, Gbit/s on each pin; gigabytes of a memory chip, and how many there are.
BOARDS = {
    "Tesla T4": (256, 10, 2, 8),
    "NVIDIA L4": (192, 12.5, 2, 12),
    "NVIDIA A10G": (384, 12.5, 2, 12),
    "NVIDIA GeForce RTX 3060": (192, 15, 2, 6),
    "NVIDIA GeForce RTX 3070": (256, 14, 1, 8),
    "NVIDIA GeForce RTX 3080": (320, 19, 1, 10),
    "NVIDIA GeForce RTX 3090": (384, 19.5, 1, 24),
    "NVIDIA GeForce RTX 4060": (128, 17, 2, 4),
    "NVIDIA GeForce RTX 4070": (192, 21, 2, 6),
    "NVIDIA GeForce RTX 4080": (256, 22.4, 2, 8),
    "NVIDIA GeForce RTX 5060": (128, 28, 2, 4),
    "NVIDIA GeForce RTX 5070": (192, 28, 2, 6),
    "NVIDIA GeForce RTX 5080": (256, 30, 2, 8),
    "NVIDIA GeForce RTX 5090": (512, 28, 2, 16),
}
CONFIRMED = {
    *UNITS,
    *BOARDS,
}  # what other pages say of them agrees with their entries; of a new one nothing is known yet


def test_geforce_peaks_are_the_printed_ones():
    for model, peaks in PRINTED.items():
        for precision, printed in zip(("fp32", "bf16", "fp8"), peaks, strict=False):
            assert facts.peak_flops(f"NVIDIA GeForce RTX {model}", precision) == pytest.approx(
                printed * 1e12, rel=0.006
            )
        has_fp8 = "fp8" in facts.find_processor(f"NVIDIA GeForce RTX {model}").flops
        assert has_fp8 == (len(peaks) == 3), model


def test_smaller_gpus_have_the_peaks_of_their_data_sheets():
    for name, sheet in SHEETS.items():
        for precision, teraflops in sheet.items():
            assert facts.peak_flops(name, precision) == pytest.approx(teraflops * 1e12, rel=1e-5), name


def test_smaller_gpus_have_the_memory_of_their_boards():
    for name, (bits, gigabits, gigabytes, chips) in BOARDS.items():
        gpu = facts.find_processor(name)
        assert gpu.bandwidth == bits / 8 * gigabits * 1e9
        assert gpu.memory == gigabytes * chips * 10**9
        assert gpu.flops["fp64"] * 32 <= gpu.flops["fp32"] <= gpu.flops["fp16"] / 2 * 1.000001


@pytest.mark.parametrize(
    ("gpu", "lacks"),
    [
        ("Tesla T4", {"tf32", "bf16", "fp8"}),
        ("NVIDIA A10G", {"fp8"}),
        ("NVIDIA GeForce RTX 3060", {"fp8"}),
        ("NVIDIA L4", set()),
    ],
)
def test_a_precision_without_units_is_refused(gpu, lacks):
    assert set(facts.PRECISIONS) - set(facts.find_processor(gpu).flops) == lacks
    for precision in lacks:
        with pytest.raises(LookupError, match=precision):
            facts.peak_flops(gpu, precision)
