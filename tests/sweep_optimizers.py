"""What lecture 06 compares and nobody waits for: optimizers, learning rates and schedules, on its two networks.

    python tests/sweep_optimizers.py gpt                 # 20 s a run on one quiet core: an hour and more in all
    python tests/sweep_optimizers.py classifier          # 0.2 s a run
    python tests/sweep_optimizers.py steps               # 5 minutes: the loss and the gradient's norm, step by step

Each run is kept in tests/measured/optimizers.json as soon as it is done, with the machine, the versions and the day; those
of `steps` in optimizer_steps.json. Runs that are there are not made again. The GPT, its batches and its validation are
those of the student's program after lecture 05, the classifier that of start_here: 784-64-10 on 10,000 pictures by 50.
"""

import argparse
import ast
import hashlib
import json
import math
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import date
from functools import cache, partial
from itertools import product
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn, optim

from utils.atomic_write import write_text
from utils.data import fashion_mnist as read_fashion_mnist

ROOT = Path(__file__).resolve().parents[1]
STORE = ROOT / "tests" / "measured" / "optimizers.json"
STORE_OF_STEPS = STORE.with_name("optimizer_steps.json")
PROGRAM = ROOT / "notebooks" / "program" / "05_modules_and_initialisation.py"


class SharedSize(optim.Optimizer):
    """Adam, but that all weights of a row, of a tensor, or of the network, have one size: the root of their mean square.

    A vector is one row. With "weight" it is Adam. With "first tensor" that one tensor has one size, and the others are
    Adam's; with "others" it is the other way round. The GPT's first tensor is its table of letters.
    """

    def __init__(self, parameters, lr: float, shared_by: str) -> None:
        super().__init__(parameters, {"lr": lr})
        self.shared_by, self.taken, self.averages = shared_by, 0, {}

    def mean_squares(self, parameters: list) -> list:
        squares = [p.grad**2 for p in parameters]
        if self.shared_by == "network":
            return [sum(s.sum() for s in squares) / sum(s.numel() for s in squares)] * len(squares)
        if self.shared_by == "tensor":
            return [s.mean() for s in squares]
        if self.shared_by in ("first tensor", "others"):
            return [s.mean() if (n == 0) == (self.shared_by == "first tensor") else s for n, s in enumerate(squares)]
        return [s.mean(dim=-1, keepdim=True) for s in squares] if self.shared_by == "row" else squares

    @torch.no_grad()
    def step(self) -> None:
        self.taken += 1
        for group in self.param_groups:
            for p, square in zip(group["params"], self.mean_squares(group["params"]), strict=True):
                m, v = self.averages.get(p, (0, 0))
                self.averages[p] = m, v = 0.9 * m + 0.1 * p.grad, 0.999 * v + 0.001 * square
                size = (v / (1 - 0.999**self.taken)).sqrt() + 1e-8
                p -= group["lr"] * m / (1 - 0.9**self.taken) / size


MAKERS = {
    "SGD": optim.SGD,
    "momentum": partial(optim.SGD, momentum=0.9),
    "Nesterov": partial(optim.SGD, momentum=0.9, nesterov=True),
    "Adam": optim.Adam,
    "AdamW": partial(optim.AdamW, weight_decay=0.1),
    "AdamW, β₂ 0.95": partial(optim.AdamW, weight_decay=0.1, betas=(0.9, 0.95)),
    "one size for the network": partial(SharedSize, shared_by="network"),
    "one size for each tensor": partial(SharedSize, shared_by="tensor"),
    "one size for each row": partial(SharedSize, shared_by="row"),
    "one size for the table of letters": partial(SharedSize, shared_by="first tensor"),
    "one size for each other tensor": partial(SharedSize, shared_by="others"),
    "AdamW, averages first": partial(optim.AdamW, weight_decay=0.1),
    "AdamW, five full steps first": partial(optim.AdamW, weight_decay=0.1),
    "AdamW, clipped in the warm-up": partial(optim.AdamW, weight_decay=0.1),
    "AdamW, clipped after the warm-up": partial(optim.AdamW, weight_decay=0.1),
}
AVERAGES_FIRST, FULL_STEPS_FIRST = 40, 5  # steps before the first of the run: at a rate of 0, and at the run's
BEST_CONSTANT = {"SGD": 0.1, "momentum": 0.03, "Nesterov": 0.03, "Adam": 1e-3}  # of the GPT, as its sweep found them
BEST_WITH_ALL = {"SGD": 0.3, "momentum": 0.1, "Nesterov": 0.3, "AdamW": 0.01}
LAST = 50  # batches
FIRST = 80  # steps: what is kept of most runs step by step
BATCH_SIZE = 50  # of the classifier

fashion_mnist = cache(read_fashion_mnist)


@dataclass(frozen=True)
class Run:
    """What is run. warmup: steps; cosine: down to 0 after the last step; clip: the global norm's limit, 0 for none."""

    network: str
    optimizer: str
    lr: float
    seed: int = 0
    cosine: bool = False
    warmup: int = 0
    clip: float = 0.0
    batch_size: int = 0  # 0: that of the program

    def rate(self, step: int, steps: int) -> float:
        if step < self.warmup:
            return self.lr * (step + 1) / self.warmup
        down = (1 + math.cos(math.pi * (step - self.warmup) / (steps - self.warmup))) / 2
        return self.lr * (down if self.cosine else 1)

    def limit(self, step: int) -> float:
        """Of the global norm in this step: two of the optimizers clip in the warm-up alone, or after it alone."""
        off = {
            "AdamW, clipped in the warm-up": step >= self.warmup,
            "AdamW, clipped after the warm-up": step < self.warmup,
        }
        return math.inf if off.get(self.optimizer) else self.clip or math.inf


def fit(
    run: Run, model: nn.Module, batches: list, loss_of: Callable, stop: int | None = None, first: Callable | None = None
) -> tuple[list, list]:
    """Train the model on the batches, or on those before `stop`: the loss of each step, and its gradient's norm.

    `first` gives the batches of the steps that two of the optimizers take before. The averages that come of them are kept
    after steps at a rate of 0, which move nothing; after full steps a new optimizer begins.
    """
    optimizer, losses, norms = MAKERS[run.optimizer](model.parameters(), lr=run.lr), [], []
    steps_first = {"AdamW, averages first": AVERAGES_FIRST, "AdamW, five full steps first": FULL_STEPS_FIRST}
    for step in range(steps_first.get(run.optimizer, 0)):
        loss_of(*first(step)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), run.clip or math.inf)
        optimizer.param_groups[0]["lr"] = run.lr if "full" in run.optimizer else 0
        optimizer.step()
        optimizer.zero_grad()
    if "full" in run.optimizer:
        optimizer = MAKERS[run.optimizer](model.parameters(), lr=run.lr)
    for step, batch in enumerate(batches[:stop]):
        loss = loss_of(*batch)
        optimizer.zero_grad()
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), run.limit(step)).item())  # before the clip
        optimizer.param_groups[0]["lr"] = run.rate(step, len(batches))
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


# The two networks


def definitions() -> str:
    """The student's program down to where it begins to run. ValueError if that line is not there."""
    text, mark = PROGRAM.read_text(encoding="utf-8"), "\ncheck_gradient(lambda"
    if mark not in text:
        raise ValueError(
            f"{PROGRAM.name} has no line that begins with {mark.strip()!r}: say here where it begins to run"
        )
    return text.split(mark)[0]


def fingerprint() -> str:
    """Of what the program computes: its comments and blank lines do not count."""
    return hashlib.sha256(ast.dump(ast.parse(definitions())).encode()).hexdigest()[:16]


def fit_gpt(run: Run, stop: int | None = None) -> tuple[list, list, dict]:
    """What fit returns, and the names of the program."""
    names = {}
    exec(compile(definitions(), str(PROGRAM), "exec"), names)
    torch.manual_seed(run.seed)
    names["model"] = model = names["GPT"]().to(names["device"])
    start = 10_000 * run.seed  # so that each seed has batches of its own, and seed 0 the program's
    batches = [names["batch"](start + step) for step in range(names["steps"])]
    return *fit(run, model, batches, names["loss_of"], stop, lambda step: names["batch"](start + 5_000 + step)), names


def run_gpt(run: Run) -> dict:
    losses, _, names = fit_gpt(run)
    with torch.no_grad():
        train = sum(names["loss_of"](*names["batch"](step)).item() for step in range(90_000, 90_020)) / 20
    return {"last": mean(losses[-LAST:]), "train": train, "val": names["validate"]()}


def run_classifier(run: Run) -> dict:
    data = fashion_mnist()
    x, y = data.train.x[:10_000], data.train.y[:10_000]
    torch.manual_seed(run.seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    generator = torch.Generator().manual_seed(run.seed)
    rows = torch.randperm(len(x), generator=generator).split(run.batch_size or BATCH_SIZE)

    def loss_of(x, y):
        return F.cross_entropy(model(x), y)

    losses, _ = fit(run, model, [(x[part], y[part]) for part in rows], loss_of)
    with torch.no_grad():
        right = (model(data.val.x).argmax(dim=1) == data.val.y).float().mean().item()
        ends = {"train": loss_of(x, y).item(), "val": loss_of(data.val.x, data.val.y).item(), "right": right}
    return {"last": mean(losses[-LAST:]), **ends}


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def steps_of_gpt(run: Run) -> dict:
    """Of a run at 0.01, or of one that has not all of the changes, all steps; of the others the first ones."""
    short = run.optimizer == "AdamW" and (run.lr < 0.01 or run.seed > 0)
    losses, norms, _ = fit_gpt(run, stop=FIRST if short else None)
    return {"loss": losses, "norm": norms}


# What is run


def runs_of_gpt() -> Iterator[Run]:
    """The program of lecture 06, whole and without one of its lines, from three starts; then the sweep.

    Each optimizer is swept twice, as the program of lecture 05 has it and with all of warm-up, cosine and clip, until the
    best rate has a worse one on either side; the best rates again from two further starts.
    """
    whole = {"cosine": True, "warmup": 40, "clip": 1.0}
    for seed in range(3):
        yield Run("gpt", "AdamW", 0.01, seed, **whole)
        for change in ({"clip": 0.0}, {"warmup": 0}, {"cosine": False}):
            yield Run("gpt", "AdamW", 0.01, seed, **whole | change)
        yield Run("gpt", "Adam", 0.01, seed, **whole)
    yield Run("gpt", "AdamW, β₂ 0.95", 0.01, **whole | {"clip": 0.0})
    constant = {
        "SGD": (0.03, 0.1, 0.3, 1.0),
        "momentum": (0.01, 0.03, 0.1),
        "Nesterov": (0.01, 0.03, 0.1),
        "Adam": (3e-4, 1e-3, 3e-3, 0.01),
    }
    all_three = {
        "SGD": (0.1, 0.3, 1.0, 3.0),
        "momentum": (0.03, 0.1, 0.3, 1.0),
        "Nesterov": (0.03, 0.1, 0.3, 1.0),
        "AdamW": (1e-3, 3e-3, 0.01, 0.03),
    }
    for how, rates in (({}, constant), (whole, all_three)):
        for optimizer in rates:
            yield from (Run("gpt", optimizer, lr, **how) for lr in rates[optimizer])
    for seed in (1, 2):
        yield from (Run("gpt", optimizer, lr, seed) for optimizer, lr in BEST_CONSTANT.items())
        yield from (Run("gpt", optimizer, lr, seed, **whole) for optimizer, lr in BEST_WITH_ALL.items())
        yield from (Run("gpt", "AdamW", lr, seed, **whole) for lr in (3e-3, 0.03))
    with_schedule = {
        "SGD": (0.1, 0.3),
        "momentum": (0.03, 0.1),
        "Nesterov": (0.03, 0.1),
        "Adam": (1e-3, 3e-3, 0.01, 0.03),
    }
    for optimizer, rates in with_schedule.items():
        yield from (Run("gpt", optimizer, lr, cosine=True, warmup=40) for lr in rates)
    yield from runs_of_ledger(whole)
    yield from runs_of_reasons(whole)


def runs_of_reasons(whole: dict) -> Iterator[Run]:
    """Why Adam wins: weights that share one size. Why the warm-up is needed: the averages, or the first few steps."""
    for seed in range(3):
        yield Run("gpt", "AdamW, averages first", 0.01, seed, **whole | {"warmup": 0})
        yield Run("gpt", "AdamW, five full steps first", 0.01, seed, **whole)
    for rate in (1e-3, 3e-4, 3e-3):
        yield Run("gpt", "one size for the network", rate)
        yield Run("gpt", "one size for each row", rate)
    yield from (Run("gpt", "one size for each tensor", rate) for rate in (3e-3, 1e-3, 0.01))
    for seed in (1, 2):
        yield Run("gpt", "one size for the network", 1e-3, seed)
        yield Run("gpt", "one size for each tensor", 3e-3, seed)
        yield Run("gpt", "one size for each row", 1e-3, seed)
    for seed in range(3):
        yield from (Run("gpt", f"AdamW, clipped {when} the warm-up", 0.01, seed, **whole) for when in ("in", "after"))
        yield from (Run("gpt", "one size for each tensor", rate, seed) for rate in (1e-4, 3e-4))
        yield Run("gpt", "one size for the table of letters", 1e-3, seed)
        yield from (Run("gpt", "one size for each other tensor", rate, seed) for rate in (3e-4, 1e-3))


def runs_of_ledger(whole: dict) -> Iterator[Run]:
    """Each of the program's changes taken back at lower rates, which a program without it may bear better.

    And at its own rate, the clip with a limit above most norms and with one below all of them.
    """
    taken_back = {
        "warmup": (0, (1e-3, 2e-3, 3e-3, 5e-3)),
        "clip": (0.0, (2e-3, 3e-3, 5e-3)),
        "cosine": (False, (3e-3, 5e-3)),
        "optimizer": ("Adam", (3e-3, 5e-3)),  # without the decay
    }
    for seed in range(3):
        yield Run("gpt", "SGD", 0.1, seed)
        yield from (Run("gpt", "Adam", lr, seed) for lr in (1e-3, 2e-3, 3e-3, 5e-3))
        yield from (Run("gpt", "AdamW", lr, seed, **whole) for lr in (2e-3, 5e-3))
        for change, (without, rates) in taken_back.items():
            yield from (
                Run(**{"network": "gpt", "optimizer": "AdamW", "lr": lr, "seed": seed} | whole | {change: without})
                for lr in rates
            )
        yield from (Run("gpt", "AdamW", 0.01, seed, **whole | {"clip": limit}) for limit in (5.0, 0.1))


def runs_of_steps() -> Iterator[Run]:
    """The plain step, Adam alone, and the program of lecture 06 at three rates, with its warm-up and without."""
    for seed, warmup, lr in product(range(3), (40, 0), (0.01, 0.003, 0.001)):
        yield Run("gpt", "AdamW", lr, seed, cosine=True, warmup=warmup, clip=1.0)
    yield Run("gpt", "SGD", 0.1)
    yield Run("gpt", "Adam", 0.002)


def runs_of_classifier() -> Iterator[Run]:
    """The sweep, from twelve starts; Adam with half of the schedule; from six starts batches of other sizes."""
    rates = [1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0]
    for seed in range(12):
        for optimizer, lr in product(("SGD", "momentum", "Nesterov", "Adam"), rates):
            yield Run("classifier", optimizer, lr, seed)
            yield Run("classifier", optimizer, lr, seed, cosine=True, warmup=20)
        for lr in (1e-3, 3e-3, 0.01, 0.03, 0.1):
            yield Run("classifier", "Adam", lr, seed, cosine=True)
            yield Run("classifier", "Adam", lr, seed, warmup=20)
    for seed, batch_size in product(range(6), (12, 200, 800)):
        for doublings in range(8):
            yield Run("classifier", "SGD", 0.0125 * 2**doublings, seed, batch_size=batch_size)
            yield Run("classifier", "Adam", 0.00075 * 2**doublings, seed, batch_size=batch_size)
    for seed, doublings in product(range(6), range(8)):
        yield Run("classifier", "SGD", 0.0125 * 2**doublings, seed, batch_size=BATCH_SIZE)
        yield Run("classifier", "Adam", 0.00075 * 2**doublings, seed, batch_size=BATCH_SIZE)


# What is kept


def machine() -> dict:
    """What the runs of this call are made on."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "cpu": (names or [platform.processor() or platform.machine()])[0],
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": date.today().isoformat(),
        "program": fingerprint(),
    }


def as_lines(kept: dict) -> str:
    """As JSON, a line for each run, so that a difference shows which have changed."""
    parts = {name: ",\n".join(json.dumps(each, ensure_ascii=False) for each in kept[name]) for name in kept}
    return "{" + ",\n".join(f'"{name}": [\n{lines}\n]' for name, lines in parts.items()) + "}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=("gpt", "classifier", "steps"))
    what = parser.parse_args().what
    torch.set_num_threads(1)
    runs, measure, store = {
        "gpt": (runs_of_gpt, run_gpt, STORE),
        "classifier": (runs_of_classifier, run_classifier, STORE),
        "steps": (runs_of_steps, steps_of_gpt, STORE_OF_STEPS),
    }[what]
    kept = json.loads(store.read_text(encoding="utf-8")) if store.exists() else {"machines": [], "runs": []}
    here = machine()
    if here not in kept["machines"]:
        kept["machines"].append(here)
    done = {json.dumps(entry["run"], sort_keys=True) for entry in kept["runs"]}
    for run in runs():
        if json.dumps(asdict(run), sort_keys=True) in done:
            continue
        start = time.process_time()
        result = measure(run)
        seconds = round(time.process_time() - start, 1)
        numbers = {name: rounded(value) for name, value in result.items()}
        kept["runs"].append(
            {"run": asdict(run), "machine": kept["machines"].index(here), "seconds": seconds, **numbers}
        )
        told = " ".join(
            f"{name} {value if isinstance(value, float) else max(value)}" for name, value in numbers.items()
        )
        print(f"{run} {told} {seconds} s", flush=True)
        write_text(store, as_lines(kept))


def rounded(value: float | list[float]) -> float | list[float]:
    return [round(each, 3) for each in value] if isinstance(value, list) else round(value, 4)


if __name__ == "__main__":
    main()
