"""What `train` costs per step over a loop written by hand: run it on demand, `python tests/bench_loop.py`.

CPU time of the process (wall time on a shared machine says little), one thread, all loops on the same data, model and
optimizer. Every round runs every loop, in an order that is reversed every other round; differences are taken within a
round, and the median and range over rounds are printed.

- bare: zero_grad, forward, backward, step
- by hand: the same maths as `train` (global-norm clipping and a running average of the weights), no bookkeeping
- train: everything on: schedule, guard against gradients that are not finite, sums, random streams, log every 50 steps
"""

import argparse
import statistics
import time
from functools import partial

import torch
import torch.nn.functional as F

from utils.batches import Order, batches
from utils.data import TensorData
from utils.device import git_commit
from utils.loop import Config, train
from utils.models import GPT, MLP

CLIP, DECAY, LR = 1.0, 0.99, 1e-3


def images(batch_size: int):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60_000, 784, generator=generator)
    return TensorData(x, torch.randint(10, (60_000,), generator=generator)), batch_size


def text():
    tokens = torch.randint(65, (4_000, 65), generator=torch.Generator().manual_seed(0))
    return TensorData(tokens[:, :-1], tokens[:, 1:].clone()), 32


CASES = {  # title: (model, data and batch size, how many of the steps asked for)
    "MLP 784-256-256-10, batch 64": (lambda: MLP(), lambda: images(64), 1.0),
    "MLP 784-1024-1024-10, batch 256": (lambda: MLP((784, 1024, 1024, 10)), lambda: images(256), 0.15),
    "GPT of 1 layer, width 128, 32 windows of 64": (lambda: GPT(65), text, 0.15),
}


class Clock:
    """The mean loss, or its sum, that also notes the CPU time at a given call and at the last one."""

    def __init__(self, first: int, last: int, reduction: str):
        self.first, self.last, self.reduction, self.calls, self.times = first, last, reduction, 0, []

    def __call__(self, logits, targets):
        if logits.requires_grad:
            self.calls += 1
            if self.calls in (self.first, self.last):
                self.times.append(time.process_time())
        return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction=self.reduction)

    def per_step(self) -> float:
        """CPU seconds."""
        return (self.times[1] - self.times[0]) / (self.last - self.first)


def bare_loop(model, data, batch_size: int, steps: int, loss: Clock, same_maths: bool) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=0.0, fused=True)
    weights = list(model.parameters())
    average = [w.detach().clone() for w in weights]
    for x, y in batches(data, Order(len(data), batch_size), 0, steps):
        optimizer.zero_grad()
        loss(model(x), y).backward()
        if same_maths:
            torch.nn.utils.clip_grad_norm_(weights, CLIP)
        optimizer.step()
        if same_maths:
            with torch.no_grad():
                torch._foreach_lerp_(average, weights, 1 - DECAY)


def our_loop(model, data, batch_size: int, steps: int, loss: Clock) -> None:
    options = {"clip": CLIP, "ema": DECAY, "warmup": 5, "schedule": "cosine", "device": "cpu"}
    train(model, data, None, Config(steps=steps, batch_size=batch_size, lr=LR, **options), loss=loss)


LOOPS = {
    "bare": partial(bare_loop, same_maths=False),
    "by hand": partial(bare_loop, same_maths=True),
    "train": our_loop,
}


def per_step(name: str, build, data, batch_size: int, steps: int) -> float:
    """CPU microseconds per step, the first 20 steps left out."""
    clock = Clock(20, steps, "sum" if name == "train" else "mean")
    torch.manual_seed(0)
    LOOPS[name](build(), data, batch_size, steps, loss=clock)
    return 1e6 * clock.per_step()


def show(name: str, values: list[float], unit: str) -> None:
    print(f"  {name:<26}{statistics.median(values):9.1f} {unit}   ({min(values):.1f} … {max(values):.1f})")


def bench(title: str, rounds: int, steps: int) -> None:
    build, make_data, share = CASES[title]
    data, batch_size = make_data()
    steps = 20 + int(steps * share)
    print(f"{title}: {rounds} rounds of {steps} steps, CPU time per step, median (range)")
    spent: dict[str, list[float]] = {name: [] for name in LOOPS}
    for number in range(rounds):
        for name in list(LOOPS)[:: 1 if number % 2 == 0 else -1]:
            spent[name].append(per_step(name, build, data, batch_size, steps))
    for name, values in spent.items():
        show(name, values, "µs")
    extra = [ours - hand for ours, hand in zip(spent["train"], spent["by hand"], strict=True)]
    show("train over by hand", extra, "µs")
    show("… in percent", [100 * e / h for e, h in zip(extra, spent["by hand"], strict=True)], "% ")
    ratio = [bare / ours for bare, ours in zip(spent["bare"], spent["train"], strict=True)]
    print(f"  steps/s relative to bare   {statistics.median(ratio):9.3f}      ({min(ratio):.3f} … {max(ratio):.3f})\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {git_commit('.')}\n")
    for title in CASES:
        bench(title, options.rounds, options.steps)
