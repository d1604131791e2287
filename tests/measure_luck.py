"""What lecture 12 compares and nobody waits for: its recipes with many seeds, and larger networks trained for longer.

    python tests/measure_luck.py recipes          # 0.5 s a run on one quiet core: five minutes
    python tests/measure_luck.py longer           # 20 and 50 s a run: a quarter of an hour

Each run is kept in tests/measured/luck.json, or in fashion_longer.json, as soon as it is done, with machine, versions
and day. Runs that are there are not made again. The loop, the network and the recipes are those of the lecture.
"""

import argparse
import json
import platform
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path

import torch

from utils.atomic_write import write_text
from utils.course.notebooks.notebook import read
from utils.data import TensorData, fashion_mnist
from utils.data.order import Order
from utils.loop import evaluate, train
from utils.loop.config import Config
from utils.models import CNN, MLP

ROOT = Path(__file__).resolve().parents[1]
STORES = {
    group: ROOT / "tests" / "measured" / f"{name}.json"
    for group, name in (("recipes", "luck"), ("longer", "fashion_longer"))
}
LECTURE = ROOT / "notebooks" / "12_the_fashionmnist_lab.ipynb"
CELLS = (
    "setup",
    "the-loop",
    "mirrored-start",
    "ours-stepped",
    "recipes",
)  # of the lecture: what the runs of `recipes` need
SEEDS, EPOCHS, CNN_EPOCHS = 41, 10, 7
CNN_RECIPE = {"batch_size": 128, "lr": 3e-3, "schedule": "cosine", "warmup": 200, "weight_decay": 0.05}


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
    }


def keep(store: Path, runs: dict[tuple[str, int], Callable[[], dict]]) -> None:
    """Make those runs, each called (recipe, seed), that are not in the store, and keep each at once."""
    kept = json.loads(store.read_text()) if store.exists() else {"machines": [], "runs": []}
    there = {(run["recipe"], run["seed"]) for run in kept["runs"]}
    here = machine()
    if here not in kept["machines"]:
        kept["machines"].append(here)
    for (recipe, seed), run in runs.items():
        if (recipe, seed) in there:
            continue
        made = {"recipe": recipe, "seed": seed, "machine": kept["machines"].index(here), **run()}
        kept["runs"].append(made)
        lines = ",\n".join(json.dumps(each) for each in kept["runs"])
        machines = json.dumps(kept["machines"])
        write_text(store, f'{{"machines": {machines},\n"runs": [\n{lines}\n]}}\n')
        print(recipe, seed, flush=True)


def recipes() -> None:
    """The lecture's recipes: of how many pictures each run is right, for the three sets that judge."""
    sources = {cell.id: cell.source for cell in read(LECTURE).code}
    names: dict = {}
    for cell in CELLS:
        exec(compile(sources[cell], cell, "exec"), names)
    data = fashion_mnist()
    judges = {
        "val": (data.val.x, data.val.y),
        "new": (data.train.x[10_000:], data.train.y[10_000:]),
        "test": (data.test.x, data.test.y),
    }

    def run(settings: dict, seed: int) -> dict:
        model = names["train"](seed, **settings)
        mirrored = "x" in settings  # trained in the mirror, judged in the mirror
        return {
            where: names["right"](model, x.flip(-1) if mirrored else x, y).sum().item()
            for where, (x, y) in judges.items()
        }

    chosen = {"the program": {}, **names["recipes"]}
    keep(
        {("recipes", recipe, seed): partial(run, how, seed) for seed in range(SEEDS) for recipe, how in chosen.items()}
    )


# Larger networks, all pictures


def scores(result) -> dict:
    """Of each epoch of a run of `train`."""
    return {
        name: [record[name] for record in result.history if name in record]
        for name in ("loss", "val_loss", "val_accuracy")
    }


def fit(build: Callable, examples: TensorData, val: TensorData, epochs: int, seed: int, own_schedule=None, **settings):
    per_epoch = Order(len(examples), settings.get("batch_size", 64)).steps_per_epoch
    torch.manual_seed(seed)
    config = Config(steps=epochs * per_epoch, seed=seed, log_every=per_epoch, val_every=per_epoch, **settings)
    return train(build(), examples, val, config, schedule=own_schedule)


def longer() -> None:
    """A network of two hidden layers under three schedules, and a small CNN: on all pictures, for 10 and 7 epochs."""
    data = fashion_mnist()
    per_epoch = Order(len(data.train), 64).steps_per_epoch
    mlp = partial(MLP, (784, 256, 256, 10), dropout=0.2)

    def stepped(step: int, steps: int) -> float:
        return 0.1 ** (step // per_epoch // 5)

    def run(build, epochs: int, seed: int, **settings) -> dict:
        result = fit(build, data.train, data.val, epochs, seed, **settings)
        judged = result.model if result.ema is None else result.ema
        return scores(result) | {"test": evaluate(judged, data.test).accuracy}

    how = {
        "constant": {},
        "averaged weights": {"ema": 0.999},
        "StepLR(5, 0.1)": {"own_schedule": stepped},
        "cosine": {"schedule": "cosine"},
    }
    runs = {}
    for seed in range(3):
        for recipe, settings in how.items():
            runs[f"MLP, {recipe}", seed] = partial(run, mlp, EPOCHS, seed, **settings)
        runs["CNN", seed] = partial(run, partial(CNN, dropout=0.3), CNN_EPOCHS, seed, **CNN_RECIPE)
    keep(STORES["longer"], runs)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("recipes", "longer"))
    torch.set_num_threads(1)
    {"recipes": recipes, "longer": longer}[parser.parse_args().what]()
