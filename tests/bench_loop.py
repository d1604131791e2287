"""What `train` and other frameworks cost per step over loops by hand: run it on demand, `python tests/bench_loop.py`.

CPU time of the process (wall time on a shared machine says little), one thread, all loops on the same model, batches and
optimizer. What a loop adds is less than what a step differs from one second to the next: so each loop is halted before
every forward for a step by hand of the same maths, on a twin of the model, and its step is held against that one. To be
halted costs too, caches go cold; so the loops by hand are halted and measured in the same way, and what they take more than
the steps within them is subtracted. A round's figure is the median over its steps; the median and range over rounds are
printed. Every round runs every loop, in an order that is reversed every other round. Before that each of them must reach
the weights of the one by hand.

- by hand: zero_grad, forward, backward, AdamW; with a clip of the gradient's global norm, a running average of the weights
  (EMA), a schedule of the rate, where the loop it is held against has them
- train: everything on, in a run folder: all of these, the guard against gradients that are not finite, sums of the loss,
  random streams, deterministic kernels, SIGTERM, a log record every 50 steps. (A checkpoint is
  written after the last step, which is not counted: when it is due, it costs what it costs.)
- the frameworks that are installed, each with what it does by default (tests/peers/requirements.txt says how to install
  them): in the smallest model, where it shows most
"""

import argparse
import contextlib
import gc
import io
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial

import torch
import torch.nn.functional as F
from peers import installed
from peers.job import CLIP, DECAY, LR, Job, Loop
from torch import nn

from utils.data import TensorData
from utils.device import git_commit
from utils.loop import Config, train
from utils.loop.optim import lr_factor
from utils.models import GPT, MLP

FIRST = 20  # steps that are not counted


def images() -> TensorData:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60_000, 784, generator=generator)
    return TensorData(x, torch.randint(10, (60_000,), generator=generator))


def text() -> TensorData:
    tokens = torch.randint(65, (4_000, 65), generator=torch.Generator().manual_seed(0))
    return TensorData(tokens[:, :-1], tokens[:, 1:].clone())


class MemoryBank(nn.Module):
    """A perceptron whose features go into a memory bank of 400 MB; those of earlier examples come into the outputs."""

    def __init__(self, rows: int = 800_000, width: int = 128):
        super().__init__()
        self.features, self.head = MLP((784, 256, width)), nn.Linear(width, 10)
        self.register_buffer("bank", torch.zeros(rows, width))
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        features = self.features(x)
        first = int(self.place) % (len(self.bank) - len(x))
        outputs = self.head(features + self.bank[first : first + len(x)].mean(0))
        with torch.no_grad():
            self.bank[first : first + len(x)] = features
            self.place += len(x)
        return outputs


SMALL = "MLP 784-256-256-10, batch 64"  # where what a loop adds shows most: all loops run it
CASES = {  # title: (model, data, batch size, how many of the steps asked for)
    SMALL: (MLP, images, 64, 1.0),
    "MLP 784-1024-1024-10, batch 256": (lambda: MLP((784, 1024, 1024, 10)), images, 256, 0.25),
    "GPT of 1 layer, width 128, 32 windows of 64": (lambda: GPT(65), text, 32, 0.25),
    "MLP with a memory bank of 400 MB, batch 64": (MemoryBank, images, 64, 0.25),
}


class CrossEntropy:
    """The mean over all targets, or the sum."""

    def __call__(self, logits, targets, reduction: str = "mean"):
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction=reduction)

    def sum(self, logits, targets):
        return self(logits, targets, "sum")


def config_of(job: Job) -> Config:
    return Config(
        steps=job.steps, batch_size=job.batch_size, lr=LR, warmup=5, schedule="cosine", clip=CLIP, ema=DECAY, device="cpu"
    )  # fmt: skip


def by_hand(job: Job, maths: tuple[str, ...]) -> None:
    for _ in steps_by_hand(job, maths):
        pass


def steps_by_hand(job: Job, maths: tuple[str, ...]) -> Iterator[None]:
    """Yields after each step."""
    optimizer, config = job.optimizer(), config_of(job)
    weights = list(job.model.parameters())
    average = [w.detach().clone() for w in weights]
    for step, (x, y) in enumerate(job.batches()):
        if "schedule" in maths:
            optimizer.param_groups[0]["lr"] = LR * lr_factor(config, step)
        optimizer.zero_grad()
        job.loss(job.model(x), y).backward()
        if "clip" in maths:
            torch.nn.utils.clip_grad_norm_(weights, CLIP)
        optimizer.step()
        if "ema" in maths:
            with torch.no_grad():
                torch._foreach_lerp_(average, weights, 1 - DECAY)
        yield


def ours(job: Job) -> None:
    with tempfile.TemporaryDirectory() as folder:
        train(job.model, job.data, None, config_of(job), run=folder, loss=job.loss.sum)


OURS = Loop(ours, ("clip", "ema", "schedule"), "all")


def job_of(build, data: TensorData, batch_size: int, steps: int) -> Job:
    torch.manual_seed(0)
    return Job(build(), data, batch_size, steps, CrossEntropy())


def silently(run: Callable[[Job], None], job: Job) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        run(job)


def check(name: str, loop: Loop, new_job) -> None:
    """The loop ends with the weights of the one by hand.

    Raises ValueError otherwise: it would be held against another amount of work.
    """
    theirs, ours = new_job(), new_job()
    silently(loop.run, theirs)
    by_hand(ours, loop.maths)
    if not all(map(partial(torch.allclose, atol=1e-5), theirs.model.parameters(), ours.model.parameters())):
        raise ValueError(
            f"{name} does not do the maths it says it does: {', '.join(loop.maths) or 'no more than AdamW'}"
        )


def bench(title: str, loops: dict[str, Loop], rounds: int, steps: int) -> None:
    build, make_data, batch_size, share = CASES[title]
    data, steps = make_data(), FIRST + int(steps * share)
    new_job = partial(job_of, build, data, batch_size)
    for name, loop in loops.items():
        check(name, loop, partial(new_job, 2 * FIRST))
    maths = sorted({loop.maths for loop in loops.values()}, key=len)
    runs = {done: Loop(partial(by_hand, maths=done), done) for done in maths} | loops
    spent: dict[tuple | str, list[tuple[float, float]]] = {name: [] for name in runs}
    for number in range(rounds):
        for name in list(runs)[:: 1 if number % 2 == 0 else -1]:
            twin = new_job(2 * steps)  # a loop may try a step before the first
            spent[name].append(extra_per_step(runs[name], new_job(steps), twin))
    show(title, loops, spent, rounds, steps)


def extra_per_step(loop: Loop, job: Job, twin: Job) -> tuple[float, float]:
    """(what a step of the loop takes more than the one by hand within it, what that takes): medians, CPU microseconds."""
    within, resumed, extra, hand = steps_by_hand(twin, loop.maths), [], [], []

    def make_one_by_hand(*forward) -> None:
        if not torch.is_grad_enabled():
            return
        began = time.process_time()
        next(within)
        ended = time.process_time()
        if resumed:
            hand.append(1e6 * (ended - began))
            extra.append(1e6 * (began - resumed.pop()) - hand[-1])
        resumed.append(time.process_time())

    job.model.register_forward_pre_hook(make_one_by_hand)
    silently(loop.run, job)
    return statistics.median(extra[FIRST:]), statistics.median(hand[FIRST:])


def show(title: str, loops: dict[str, Loop], spent: dict, rounds: int, steps: int) -> None:
    print(f"{title}: {rounds} rounds of {steps} steps, CPU µs per step, median (range)")
    for maths, values in spent.items():
        if maths not in loops:
            title = "by hand: " + (", ".join(maths) or "AdamW")
            print(f"  {title:<32}{median_and_range([hand for _, hand in values])}")
    print(f"\n  {'more than by hand':<28}{'µs':>8}{'%':>27}   also on")
    for name, loop in loops.items():
        extra = [theirs - ours for (theirs, _), (ours, _) in zip(spent[name], spent[loop.maths], strict=True)]
        share = [100 * more / hand for more, (_, hand) in zip(extra, spent[loop.maths], strict=True)]
        has = "; ".join(filter(None, [", ".join(loop.maths), loop.has]))
        print(f"  {name:<28}{median_and_range(extra)}{median_and_range(share)}   {has}")
    print(flush=True)


def median_and_range(values: list[float]) -> str:
    return f"{statistics.median(values):8.1f} {f'({min(values):.1f} … {max(values):.1f})':<18}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    torch.set_num_threads(1)
    modules, missing = installed()
    peers = {name: loop for module in modules for name, loop in module.LOOPS.items()}
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {git_commit('.')}")
    print("".join(f"left out: {what}\n" for what in missing))
    gc.freeze()  # no loop pays for collecting what the frameworks made when they were imported
    for title in CASES:
        bench(title, {"train": OURS} | (peers if title == SMALL else {}), options.rounds, options.steps)


if __name__ == "__main__":
    main()
