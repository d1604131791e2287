"""Memory that runs out, by a real limit on a process: the step is made in smaller parts, or the run ends with its bytes."""

import ctypes
import random
import re
import resource
from array import array
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from torture.tally import Tally
from torture.victims import together

from utils.loop import Result, train
from utils.loop.config import Config

EXAMPLES, BATCH, STEPS = 48, 16, 4
M_MMAP_THRESHOLD = -3  # of malloc.h
WIDE = 2**14  # copies of an example's eight features: a megabyte of float64


def memory(folder: Path, count: int, seed: int = 0) -> Tally:
    tally, draw = Tally("memory that runs out"), random.Random(seed)
    need = _measured(folder / "measured")
    for number in range(count):
        trouble = TROUBLES[number % len(TROUBLES)]
        here = folder / str(number)
        here.mkdir()
        tally.count += 1
        tally.notes[trouble.__name__.replace("_", " ").strip()] += 1
        for problem in trouble(here, need, draw):
            tally.wrong.append(f"try {number},{trouble.__name__.replace('_', ' ')}: {problem}")
    return tally


# ---- a model that needs much memory, and a limit ---------------------------------------------------------------------


class Points(Dataset):
    """Points in float64; at example `bad` something happens."""

    def __init__(self, bad: int = -1, happens: Callable[[], object] = int):
        self.x = torch.randn(EXAMPLES, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        self.y = self.x[:, :3].argmax(1)
        self.bad, self.happens = bad, happens

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        if i == self.bad:
            self.happens()
        return self.x[i], self.y[i]


class Limit(nn.Module):
    """From its forward pass number `since` in training on, this process has no more than `room` bytes beyond what it has."""

    def __init__(self, room: int, since: int):
        super().__init__()
        self.room, self.since = room, since
        self.seen = array("q")  # a list would be put back with an attempt that is undone

    @property
    def sizes(self) -> list[int]:
        return list(self.seen)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.seen.append(len(x))
            if len(self.sizes) == self.since:
                self.before = status("VmSize")
                if self.room:
                    resource.setrlimit(resource.RLIMIT_AS, (self.before + self.room, resource.RLIM_INFINITY))
        return x


def status(name: str) -> int:
    """Bytes of address space of this process: VmSize, or VmPeak for the most so far."""
    return int(re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024


class Wide(nn.Module):
    """Each example as a megabyte, several times over, and again as it was."""

    def forward(self, x: Tensor) -> Tensor:
        return x.repeat(1, WIDE).tanh().sin().tanh().view(len(x), WIDE, 8).mean(1)


def build(room: int = 0, since: int = 1, noisy: bool = False) -> nn.Sequential:
    torch.manual_seed(1)
    noise = [nn.BatchNorm1d(8), nn.Dropout(0.2)] if noisy else []
    return nn.Sequential(Limit(room, since), nn.Linear(8, 8), *noise, Wide(), nn.Linear(8, 3)).double()


def fit(model: nn.Module, data: Dataset | None = None, **changes) -> Result:
    options = {"steps": STEPS, "batch_size": BATCH, "seed": 3, "lr": 1e-2, "ema": 0.9, "log_every": 1, "device": "cpu"}
    options |= {"out_of_memory": "halve"}
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 2**16)  # what is freed goes back to the system: only what lives counts
    try:
        return train(model, data or Points(), None, Config(deterministic=False, **options | changes))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)


def _measured(here: Path) -> int:
    """Bytes that a step of the whole batch takes."""

    def measure(rank: int) -> None:
        model = build()
        fit(model, steps=1)
        (here / "need").write_text(str(status("VmPeak") - model[0].before))

    here.mkdir()
    ended = together(measure, 1, here)
    if ended[0][0]:
        raise RuntimeError(f"a run without a limit failed: {ended}")
    return int((here / "need").read_text())


# ---- what may happen -------------------------------------------------------------------------------------------------


def _half_or_a_quarter_fits(here: Path, need: int, draw: random.Random):
    """The limited run ends with the weights of the unlimited one."""
    size, share = draw.choice(((8, draw.uniform(0.6, 0.9)), (4, draw.uniform(0.35, 0.45))))
    room, since = int(need * share), draw.randint(1, STEPS)
    options = {"optimizer": draw.choice(("adamw", "sgd")), "clip": draw.choice((0.0, 0.1))}

    def both(rank: int) -> None:
        free, limited = build(), build(room, since)
        whole, parts = fit(free, **options), fit(limited, **options)
        compare(whole, parts, limited, 1e-12)
        if limited[0].sizes[-1] != size:
            raise ValueError(f"with {share:.0%} of what the whole needs, parts of {size} fit: {limited[0].sizes}")

    yield from _failures(together(both, 1, here))


def _with_noise(here: Path, need: int, draw: random.Random):
    """The failed attempt leaves no trace in BatchNorm's statistics and the random stream: bit for bit the run that is cut
    into as many parts from the beginning."""
    room = int(need * draw.uniform(0.45, 0.85))

    def both(rank: int) -> None:
        limited = build(room, noisy=True)
        parts = fit(limited)
        free = build(noisy=True)
        compare(fit(free, accumulation=BATCH // limited[0].sizes[-1]), parts, limited, 0.0)

    yield from _failures(together(both, 1, here))


def compare(whole: Result, parts: Result, limited: nn.Sequential, tolerance: float) -> None:
    """Raises ValueError unless both ended with the same model and average, the limited one in smaller parts."""
    if limited[0].sizes[-1] == BATCH:
        raise ValueError(f"the limit was not felt: {limited[0].sizes}")
    for ours, theirs in ((parts.model, whole.model), (parts.ema, whole.ema)):
        for name, tensor in theirs.state_dict().items():
            if not torch.allclose(ours.state_dict()[name], tensor, rtol=0, atol=tolerance):
                raise ValueError(f"other {name}, in parts of {limited[0].sizes}")


def _not_even_one_example_fits(here: Path, need: int, draw: random.Random):
    """An error with the bytes of everything that is not cut into parts."""
    optimizer, since = draw.choice(("adamw", "sgd")), draw.choice((1, 2))

    def starve(rank: int) -> None:
        fit(build(int(need / BATCH * 0.7), since), optimizer=optimizer)

    ((code, said),) = together(starve, 1, here)
    floats = sum(parameter.numel() for parameter in build().parameters())
    moments = {"adamw": 2, "sgd": 1}[optimizer]
    counters = 4 * len(list(build().parameters())) if optimizer == "adamw" else 0
    held = {
        "parameters": 8 * floats,
        "gradients": 8 * floats,
        "optimizer": 8 * floats * moments + counters if since > 1 or optimizer == "sgd" else 0,
        "average": 8 * floats,
        "buffers": 0,
        "batch": BATCH * 8 * (8 + 1),
    }
    ledger = ", ".join(f"{kind} {number:,}" for kind, number in held.items())
    if code != 1 or ledger not in said or "can't allocate memory" not in said or f"step {since} " not in said:
        yield f"exit status {code}, no {ledger!r} in {said!r}"


def _one_of_two_ranks(here: Path, need: int, draw: random.Random):
    """Both stop, and both name the rank."""
    limited, since, parallel = draw.randrange(2), draw.randint(1, STEPS), draw.choice(("ddp", "fsdp"))

    def ranked(rank: int) -> None:
        fit(build(int(need / 2 * 0.6) if rank == limited else 0, since), parallel=parallel)

    for rank, (code, said) in enumerate(together(ranked, 2, here)):
        words = f"RuntimeError: out of memory at step {since} on rank {limited}, which cannot repeat it"
        if rank != limited:
            words = f"RuntimeError: rank {limited} stopped with {words}"
        if code != 1 or not said.startswith(words):
            yield f"rank {rank} of {parallel}: exit status {code}, {said!r}"


def _in_the_dataset(here: Path, need: int, draw: random.Random):
    """An example that cannot be fetched for want of memory is named, and nothing is repeated."""
    happens = draw.choice((lambda: bytearray(2**62), partial(torch.empty, 2**58)))
    bad, processes = draw.randrange(2, EXAMPLES), draw.choice((0, 1))

    def fetch(rank: int) -> None:
        fit(build(), Points(bad, happens), workers=processes)

    ((code, said),) = together(fetch, 1, here)
    if code != 1 or not re.match(
        rf"RuntimeError: .*could not fetch example {bad} in epoch 0: (MemoryError|RuntimeError)", said
    ):
        yield f"exit status {code}, {said!r}"
    with suppress(FileNotFoundError):
        if "is repeated" in (here / "log-0").read_text():
            yield "it was taken for a step that needs too much"


TROUBLES = (
    _half_or_a_quarter_fits,
    _with_noise,
    _not_even_one_example_fits,
    _one_of_two_ranks,
    _half_or_a_quarter_fits,
    _in_the_dataset,
)


def _failures(ended: list[tuple[int | str, str]]):
    yield from (f"exit status {code}: {said}" for code, said in ended if code)
