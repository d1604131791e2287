"""A run with everything on that draws at random, to be stopped and resumed; as a script, it resumes in a process of its own.

python resumable.py FOLDER: resumes every case that was stopped in a subfolder of FOLDER and writes its outcome there.
"""

import random
import sys
from itertools import product
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from utils.loop import Config, train
from utils.loop.log import MEASURED

EXAMPLES, BATCH, STEPS = 96, 16, 20  # six steps an epoch
STOPS = {"first step": 1, "mid-epoch": 9, "end of epoch": 12}
WORKERS = {"none": (0, True), "two": (2, False), "two persistent": (2, True)}
CASES = list(product(("fp32", "bf16", "fp16"), (1, 4), WORKERS, STOPS))


class Noisy(Dataset):
    """Points whose every visit is jittered from all three global streams, as careless augmentation does."""

    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.randn(EXAMPLES, 5, generator=generator)
        self.y = (self.x.sum(1) > 0).long()

    def __len__(self):
        return EXAMPLES

    def __getitem__(self, i):
        jitter = torch.randn(5) + float(np.random.randn()) + random.gauss(0, 1)  # noqa: NPY002
        return self.x[i] + 0.1 * jitter, self.y[i]


class Stop(Exception):
    """What stops a run, in the middle of a step."""


def stop_training_after(model: nn.Module, calls: int) -> None:
    """Raise Stop in the model's next forward pass of training after so many."""
    left = [calls]

    def count(model, inputs, outputs):
        left[0] -= outputs.requires_grad
        if left[0] < 0:
            raise Stop

    model.register_forward_hook(count)


def run(folder: Path | None, precision: str, accumulation: int, workers: str = "none", stop_after: int | None = None):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
    processes, persistent = WORKERS[workers]
    config = Config(
        steps=STEPS, batch_size=BATCH, accumulation=accumulation, seed=3,
        lr=3e-2, warmup=5, schedule="cosine", clip=0.5, ema=0.9, precision=precision,
        workers=processes, persistent_workers=persistent, log_every=2, val_every=5, save_every=1,
    )  # fmt: skip
    if stop_after is not None:
        stop_training_after(model, stop_after * accumulation)
    return train(model, Noisy(), Noisy(), config, run=folder)


def outcome(result) -> dict:
    """All that must be the same: every tensor of model and average, every record but for what was measured."""
    return {
        "model": dict(result.model.state_dict()),
        "ema": dict(result.ema.state_dict()),
        "history": [{k: v for k, v in record.items() if k != MEASURED} for record in result.history],
        "best": result.best,
    }


def same(a: dict, b: dict) -> bool:
    tensors = all(
        a[part].keys() == b[part].keys() and all(torch.equal(a[part][k], b[part][k]) for k in a[part])
        for part in ("model", "ema")
    )
    return tensors and a["history"] == b["history"] and a["best"] == b["best"]


def name_of(case: tuple) -> str:
    return "-".join(map(str, case)).replace(" ", "_")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for case in CASES:
        stopped = Path(sys.argv[1]) / name_of(case)
        if stopped.exists():
            torch.save(outcome(run(stopped, *case[:3])), stopped / "outcome")
