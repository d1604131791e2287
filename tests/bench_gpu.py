"""How near its limits `train` comes on a GPU: run it on demand, `python tests/bench_gpu.py`, on a machine with one.

- ceilings: what this chip's matmuls and copies reach of its datasheet, and matmuls of rising intensity under that roof
- gpt: GPTs of about 124M and 350M parameters trained by `train` with everything on, eager and compiled, against a bare loop
  of the same maths and the same batches in the same run: tokens/s, MFU, and the peak of memory against a ledger that was
  made before on fake tensors, which take none
- fashion: seconds of `train` on FashionMNIST, and the test accuracy they buy, over several seeds; the same by a DataLoader

Ratios are paired by round. `--tiny` runs all of it in small, also without a GPU: it shows that it works, and no speed.
"""

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from fast_images import Augment, Items, resnet, smoothed
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils import clip_grad_norm_

from utils import napkin
from utils.data import TensorData, Windows, fashion_mnist
from utils.data.order import Order, batches
from utils.device import autocast, fingerprint, pick_device, synchronize
from utils.facts import MODELS, ModelShape, find_processor, gpt_shape
from utils.loop import Config, evaluate, train
from utils.loop.metrics import cross_entropy_sum
from utils.loop.optim import lr_factor
from utils.measure import LiveBytes, time_paired
from utils.models import GPT

VOCABULARY = 50_304  # GPT-2's 50,257, rounded up to a multiple of 128, as tensor cores like it
SHAPES = {
    "124M": replace(MODELS["GPT-2"], vocabulary=VOCABULARY),
    "350M": gpt_shape("GPT-2 medium", 24, 1_024, 16, 1_024, "Radford et al. 2019, table 2", VOCABULARY),
}
TINY = gpt_shape("tiny", 2, 64, 4, 64, "this file", 512)
EPOCHS = {0.91: 3, 0.94: 18}  # test accuracy that is aimed at → epochs that the recipe below takes for it
CLIP, DECAY = 1.0, 0.999


def ceilings(device: torch.device, tiny: bool) -> dict:
    """What matmuls and copies reach, and what share of the datasheet that is, where the chip is known."""
    size, repeats, nbytes = (256, 2, 1 << 20) if tiny else (8_192, 5, 1 << 30)
    chip = _chip(device)
    found = {}
    for precision in ("bf16", "fp16", "tf32", "fp32"):
        speed = _matmul_speed(device, precision, size, size, size, repeats)
        peak = chip and chip.flops.get(precision)
        found[precision] = {"flops_per_s": speed, "of datasheet": peak and speed / peak}
        print(f"  matmul {size}³ {precision:5}{speed / 1e12:9.1f} TFLOP/s{_share(peak and speed / peak)}")
    source = torch.ones(nbytes, dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    timing = time_paired({"copy": lambda: target.copy_(source)}, device=device)["copy"]
    bandwidth = 2 * nbytes / timing.median  # read and written
    found["copy"] = {"bytes_per_s": bandwidth, "of datasheet": chip and bandwidth / chip.bandwidth}
    print(f"  copy {nbytes / 1e9:.2f} GB{bandwidth / 1e12:15.3f} TB/s{_share(chip and bandwidth / chip.bandwidth)}")
    found["roofline"] = [
        _under_the_roof(device, rows, size, found["bf16"]["flops_per_s"], bandwidth, repeats)
        for rows in (1, 16, 64, 256, 1_024, size)
    ]
    return found


def _matmul_speed(device: torch.device, precision: str, m: int, k: int, n: int, repeats: int) -> float:
    """FLOP/s of (m, k) @ (k, n), `repeats` in a row, median of rounds."""
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision, torch.float32)
    a, b = torch.randn(m, k, device=device, dtype=dtype), torch.randn(k, n, device=device, dtype=dtype)
    out = torch.empty(m, n, device=device, dtype=dtype)
    kept = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    try:
        timing = time_paired({"matmul": lambda: [torch.mm(a, b, out=out) for _ in range(repeats)]}, device=device)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = kept
    return repeats * napkin.matmul_flops(m, k, n) / timing["matmul"].median


def _under_the_roof(device, rows: int, size: int, peak: float, bandwidth: float, repeats: int) -> dict:
    """A matmul of `rows` rows against the roof of the two measured ceilings."""
    speed = _matmul_speed(device, "bf16", rows, size, size, 4 * repeats)
    flops, nbytes = napkin.matmul_flops(rows, size, size), napkin.matmul_bytes(rows, size, size, 2)
    intensity = napkin.arithmetic_intensity(flops, nbytes)
    roof = napkin.attainable_flops(intensity, peak, bandwidth)
    print(
        f"  {rows:5} rows, {intensity:7.1f} FLOPs/byte{speed / 1e12:9.1f} of {roof / 1e12:7.1f} TFLOP/s under the roof"
    )
    return {"rows": rows, "intensity": intensity, "flops_per_s": speed, "roof": roof}


class Clock:
    """A loss that notes the time, the device's queue empty, when it is called for the `first` and the `last` time."""

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor], device: torch.device, first: int, last: int):
        self.loss, self.device, self.first, self.last = loss, device, first, last
        self.calls, self.times, self.peak = 0, [], 0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if outputs.requires_grad:
            self.calls += 1
            if self.calls in (self.first, self.last):
                synchronize(self.device)
                self.times.append(time.perf_counter())
                if self.device.type == "cuda" and self.calls == self.first:
                    torch.cuda.reset_peak_memory_stats(self.device)
                elif self.device.type == "cuda":
                    self.peak = torch.cuda.max_memory_allocated(self.device)
        return self.loss(outputs, targets)

    def per_step(self) -> float:
        """Seconds."""
        return (self.times[1] - self.times[0]) / (self.last - self.first)


def gpt(device: torch.device, tiny: bool, rounds: int, batch_size: int) -> dict:
    """train against the bare loop, for each size, eager and compiled."""
    found = {}
    for name, shape in ({"tiny": TINY} if tiny else SHAPES).items():
        with tempfile.TemporaryDirectory() as folder:
            data = _tokens(Path(folder), shape, 10 * batch_size)
            for compiled in (False, True):
                title = f"{name} {'compiled' if compiled else 'eager'}"
                found[title] = _gpt(title, shape, data, device, compiled, rounds, batch_size, tiny)
    return found


def _tokens(folder: Path, shape: ModelShape, windows: int) -> Windows:
    """Random tokens in a file, read as every long text is."""
    tokens = np.memmap(folder / "tokens", dtype=np.uint16, mode="w+", shape=(windows * shape.context + 1,))
    tokens[:] = np.random.default_rng(0).integers(shape.vocabulary, size=len(tokens))
    tokens.flush()
    return Windows(np.memmap(folder / "tokens", dtype=np.uint16, mode="r"), shape.context, stride=shape.context)


def _gpt(title, shape: ModelShape, data, device, compiled: bool, rounds: int, batch_size: int, tiny: bool) -> dict:
    steps, first = (12, 4) if tiny else (60, 20)
    config = Config(
        steps=steps, batch_size=batch_size, lr=3e-4, warmup=5, schedule="cosine", clip=CLIP, ema=DECAY, precision="bf16",
        device=str(device), workers=2, log_every=10, save_every=0,
    )  # fmt: skip
    predicted = None if compiled else ledger(shape, batch_size, device)
    torch.manual_seed(0)
    model, loss = _model(shape).to(device), cross_entropy_sum
    if compiled:
        model.compile(dynamic=False)
        loss = torch.compile(loss, dynamic=False)
    same = check(model, data, replace(config, steps=8, warmup=2), loss)
    spent, peaks = {"bare": [], "train": []}, []
    for number in range(rounds):
        for name in ("bare", "train")[:: 1 if number % 2 == 0 else -1]:
            clock = Clock(loss, device, first, steps)
            (bare if name == "bare" else _train)(model, data, config, clock)
            spent[name].append(clock.per_step())
            peaks += [clock.peak] if name == "train" else []
    seconds = {name: statistics.median(values) for name, values in spent.items()}
    tokens = batch_size * shape.context
    flops = napkin.forward_flops(shape, shape.context, batch_size) + napkin.backward_flops(
        shape, shape.context, batch_size
    )
    chip = _chip(device)
    row = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "tokens_per_s": tokens / seconds["train"],
        "mfu": chip and napkin.mfu(flops, seconds["train"], chip.flops["bf16"]),
        "mfu of the bare loop": chip and napkin.mfu(flops, seconds["bare"], chip.flops["bf16"]),
        "bare / train": [b / t for b, t in zip(spent["bare"], spent["train"], strict=True)],
        "how far from the bare loop's weights": same,
        "peak": max(peaks) or None,
        "predicted": predicted,
    }
    ratios = row["bare / train"]
    print(
        f"  {title}: {row['parameters'] / 1e6:.0f}M parameters, {row['tokens_per_s']:,.0f} tokens/s, MFU"
        f"{_share(row['mfu'])} (bare{_share(row['mfu of the bare loop'])}), {statistics.median(ratios):.3f} of the bare "
        f"loop's speed ({min(ratios):.3f} … {max(ratios):.3f}){_memory(row['peak'], predicted)}"
    )
    return row


def _model(shape: ModelShape) -> GPT:
    return GPT(shape.vocabulary, shape.context, shape.width, shape.heads, shape.layers)


def _train(model: nn.Module, data, config: Config, loss) -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(model, data, None, config, run=folder, loss=loss)


def bare(model: nn.Module, data, config: Config, loss) -> None:
    """The loop by hand, with the same maths, batches and workers, and nothing else."""
    device = torch.device(config.device)
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(
        weights, lr=config.lr, betas=(config.beta1, config.beta2), weight_decay=0.0, fused=True
    )
    average = [weight.detach().clone() for weight in weights]
    order = Order(len(data), config.batch_size, config.seed)
    pin = device.type == "cuda"
    for step, (x, y) in enumerate(batches(data, order, 0, config.steps, workers=config.workers, pin=pin)):
        x, y = x.to(device, non_blocking=True), y.to(device, non_blocking=True)
        optimizer.param_groups[0]["lr"] = config.lr * lr_factor(config, step)
        optimizer.zero_grad()
        with autocast(device, config.precision):
            total = loss(model(x), y)
        (total / y.numel()).backward()
        clip_grad_norm_(weights, config.clip)
        optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(average, weights, 1 - config.ema)


def check(model: nn.Module, data, config: Config, loss) -> float:
    """How far apart train and the bare loop end, as a share of the way that they went. Leaves the model as it was.

    Raises ValueError if that is more than a tenth: they would be held against each other with unequal work.
    """
    before = {name: value.clone() for name, value in model.state_dict().items()}
    ends = []
    for run in (_train, bare):
        run(model, data, config, loss)
        ends.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
        model.load_state_dict(before)
    start = torch.cat([p.detach().flatten() for p in model.parameters()])
    apart = ((ends[0] - ends[1]).norm() / (ends[1] - start).norm()).item()
    if not apart < 0.1:
        raise ValueError(f"after {config.steps} steps train and the bare loop are {apart:.3f} of their way apart")
    return apart


def ledger(shape: ModelShape, batch_size: int, device: torch.device) -> int:
    """Bytes alive at the peak of a step: weights, gradients, averages, optimizer, activations, from shapes alone."""
    with FakeTensorMode(), LiveBytes() as memory:
        with torch.device(device):
            model = _model(shape)
            x = torch.zeros(batch_size, shape.context, dtype=torch.long)
            y = torch.zeros_like(x)
        weights = list(model.parameters())
        average = [weight.detach().clone() for weight in weights]
        optimizer = torch.optim.AdamW(weights, fused=True)
        for _ in range(2):  # the optimizer's state comes with the first step
            optimizer.zero_grad()
            with autocast(device, "bf16"):
                outputs = model(x)
                total = cross_entropy_sum(outputs, y)
            total.backward(torch.full_like(total, 1 / x.numel()))
            del outputs, total
            clip_grad_norm_(weights, CLIP)
            optimizer.step()
            with torch.no_grad():
                torch._foreach_lerp_(average, weights, 1 - DECAY)
    return memory.peak


def fashion(device: torch.device, tiny: bool, seeds: int) -> dict:
    """Seconds of `train`, from its call to its return, and the test accuracy after it; the first run warms up."""
    splits = fashion_mnist(val=0)
    if not splits.real:
        print("  these are stand-in images: the accuracy says nothing about FashionMNIST")
    kept = 600 if tiny else len(splits.train)
    on_host = TensorData(splits.train.x[:kept], splits.train.y[:kept])
    on_device, test = on_host.to(device), splits.test.to(device)
    runs = {f"{aim:.2f}": (aim, on_device, 0) for aim in EPOCHS}
    runs["0.91 by a DataLoader"] = (0.91, Items(on_host), 0 if tiny else 8)
    found = {}
    for title, (aim, data, workers) in runs.items():
        one_run = partial(_fashion, data, test, device, 1 if tiny else EPOCHS[aim], workers, tiny)
        one_run(seed=100)
        seconds, accuracies = zip(*(one_run(seed=seed) for seed in range(seeds)), strict=True)
        found[title] = {"seconds": seconds, "accuracy": accuracies, "epochs": EPOCHS[aim], "real": splits.real}
        print(
            f"  {title}: {statistics.mean(seconds):.2f} s ({min(seconds):.2f} … {max(seconds):.2f}), test accuracy "
            f"{statistics.mean(accuracies):.4f} ({min(accuracies):.4f} … {max(accuracies):.4f}), {seeds} seeds"
        )
    return found


def _fashion(data, test: TensorData, device, epochs: int, workers: int, tiny: bool, seed: int) -> tuple[float, float]:
    batch_size = 100 if tiny else 500
    steps = epochs * math.ceil(len(data) / batch_size)
    torch.manual_seed(seed)
    model = nn.Sequential(Augment(), resnet(width=4 if tiny else 64))
    model = model.to(device, memory_format=torch.channels_last)
    config = Config(
        steps=steps, batch_size=batch_size, seed=seed, lr=4e-3, weight_decay=0.02, warmup=steps // 5, schedule="cosine",
        precision="bf16", device=str(device), workers=workers, deterministic=False, ema=0.99, log_every=steps,
    )  # fmt: skip
    kept, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    try:
        synchronize(device)
        began = time.perf_counter()
        result = train(model, data, None, config, loss=smoothed)
        synchronize(device)
        seconds = time.perf_counter() - began
    finally:
        torch.backends.cudnn.benchmark = kept
    return seconds, evaluate(result.ema, test, batch_size=1_000, precision="bf16").accuracy


def _chip(device: torch.device):
    """The datasheet of the device; None for one that is not known."""
    if device.type != "cuda":
        return None
    try:
        return find_processor(torch.cuda.get_device_name(device))
    except LookupError:
        return None


def _share(part: float | None) -> str:
    return "       –" if part is None else f"{100 * part:6.1f} %"


def _memory(peak: int | None, predicted: int | None) -> str:
    if predicted is None:
        return f", peak {peak / 1e9:.3f} GB" if peak else ""
    measured = f" against {peak / 1e9:.3f} GB measured, {100 * (predicted / peak - 1):+.2f} %" if peak else ""
    return f", predicted peak {predicted / 1e9:.3f} GB{measured}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help="ceilings, gpt, fashion; default: all")
    parser.add_argument("--tiny", action="store_true", help="all of it in small, also without a GPU")
    parser.add_argument("--rounds", type=int, default=5, help="of gpt (default 5)")
    parser.add_argument("--seeds", type=int, default=5, help="of fashion (default 5)")
    parser.add_argument("--batch-size", type=int, default=16, help="sequences in a step of gpt (default 16)")
    parser.add_argument("--out", type=Path, help="also write what came out to this JSON file")
    options = parser.parse_args()
    device = pick_device("auto")
    if device.type != "cuda" and not options.tiny:
        parser.error("there is no CUDA GPU here: run it on a machine with one, or in small with --tiny")
    parts = {
        "ceilings": partial(ceilings, device, options.tiny),
        "gpt": partial(gpt, device, options.tiny, options.rounds, 4 if options.tiny else options.batch_size),
        "fashion": partial(fashion, device, options.tiny, options.seeds),
    }
    if unknown := set(options.parts) - set(parts):
        parser.error(f"no part is called {', '.join(sorted(unknown))}: choose of {', '.join(parts)}")
    torch.set_num_threads(1)
    found = {"machine": fingerprint(device)}
    print(", ".join(f"{name} {value}" for name, value in found["machine"].items()))
    for name in options.parts or parts:
        print(f"\n{name}", flush=True)
        found[name] = parts[name]()
        if options.out:
            options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
