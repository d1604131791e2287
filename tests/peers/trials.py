"""The same trials for every loop: it is run, killed, damaged and started again in processes forked from this one."""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

import torch
import torch.nn.functional as F
from helpers.resumable_run import BATCH, Noisy
from torch import Tensor, nn
from torch.utils.data import Dataset, TensorDataset
from torture.victims import PATIENCE, Victim, start

from peers.job import Trial
from utils.data import IGNORE
from utils.models import MLP

STEPS, SAVE_EVERY, DIES_AT = 20, 9, 13  # six steps an epoch: saved within the second, died in the third
POISONED = 5  # the step whose gradient is not finite
EXACT = 1e-12  # relative error of a gradient in float64


class Told:
    """Cross-entropy; in each training step it tells, in a file that outlives a kill, with which weights.

    dies_at: the step in which it kills its process. leaves: end the process with the first step. poisons: make a gradient
    NaN whose loss is not.
    """

    def __init__(self, model: nn.Module, told: Path, dies_at: int = 0, leaves: bool = False, poisons: bool = False):
        self.model, self.file, self.calls = model, os.open(told, os.O_CREAT | os.O_WRONLY | os.O_APPEND), 0
        self.dies_at, self.leaves, self.poisons = dies_at, leaves, poisons

    def __call__(self, outputs: Tensor, targets: Tensor, reduction: str = "mean") -> Tensor:
        loss = F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), reduction=reduction)
        if not outputs.requires_grad:
            return loss
        self.calls += 1
        weights = sum(bias.detach().double().sum() for bias in self.model.parameters() if bias.ndim == 1).item()
        os.write(self.file, f"{weights.hex()}\n".encode())
        if self.leaves:
            os._exit(0)
        if self.calls == self.dies_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.poisons and self.calls == POISONED:
            return loss + 0 * (0 * outputs.sum()).sqrt()
        return loss

    def sum(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self(outputs, targets, "sum")


@dataclass
class Subject:
    """A loop in a folder of its own, to be tried."""

    train: Callable[[Trial], None]
    newest: Callable[[Trial], Path]
    folder: Path

    def trial(self, model: nn.Module, data: Dataset, loss: Told | None, **options) -> Trial:
        defaults = {"batch_size": BATCH, "steps": STEPS, "save_every": SAVE_EVERY}
        return Trial(model, data, loss=loss, folder=self.folder / "run", **defaults | options)

    def start(
        self, new_model: Callable[[], nn.Module], data: Dataset, troubles: dict | None = None, **options
    ) -> Victim:
        """Start it in a process of its own; troubles: as in Told."""
        (self.folder / "run").mkdir(parents=True, exist_ok=True)
        return start(partial(self._work, new_model, data, troubles or {}, options), self.folder / "log")

    def _work(self, new_model: Callable[[], nn.Module], data: Dataset, troubles: dict, options: dict) -> None:
        torch.manual_seed(1)
        model = new_model()
        try:
            self.train(self.trial(model, data, Told(model, self.folder / "told", **troubles), **options))
        finally:
            torch.save(model.state_dict(), self.folder / "weights")

    def restarts_with(self, new_model: Callable[[], nn.Module], data: Dataset, **options) -> str | None:
        """Start it once more: the weights that it goes on with, as Told tells them; None if it refuses to."""
        before = len(self.told())
        self.start(new_model, data, {"leaves": True}, **options).end()
        return next(iter(self.told()[before:]), None)

    def told(self) -> list[str]:
        told = self.folder / "told"
        return told.read_text().splitlines() if told.exists() else []

    def weights(self) -> list[Tensor]:
        return list(torch.load(self.folder / "weights").values())


def small(dropout: float) -> nn.Module:
    return nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, 2))


def points() -> TensorDataset:
    noisy = Noisy()
    return TensorDataset(noisy.x, noisy.y)


RESUMES = {"order": (0.0, points), "dropout": (0.2, points), "augmented": (0.2, Noisy)}


def resumes(subject: Callable[[str], Subject], tries: int) -> dict[str, list[bool]]:
    """Killed in the middle of an epoch and started again: the same bits as without, with 0 workers and with 2."""
    cells = {what: [] for what in RESUMES}
    for (what, (dropout, data)), workers in product(RESUMES.items(), (0, 2)):
        whole, killed = subject(f"{what}-{workers}-whole"), subject(f"{what}-{workers}-killed")
        for here, troubles in ((whole, {}), (killed, {"dies_at": DIES_AT}), (killed, {})):
            here.start(partial(small, dropout), data(), troubles, workers=workers).end()
        cells[what].append(all(map(torch.equal, whole.weights(), killed.weights())))
    return cells


def big() -> nn.Module:
    """15 MB with its optimizer, so that saving takes most of the time of a step of few examples."""
    return MLP((784, 800, 800, 10))


def images() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    return TensorDataset(torch.randn(64, 784, generator=generator), torch.randint(10, (64,), generator=generator))


def killed(subject: Callable[[str], Subject], tries: int) -> dict[str, list[bool]]:
    """Killed at a random moment while it saves after every step: started again it goes on from the newest that was saved."""
    draw, kept = random.Random(0), []
    for number in range(tries):
        here, options = subject(f"killed-{number}"), {"steps": 1000, "save_every": 1, "batch_size": 2}
        process = here.start(big, images(), **options)
        step_seconds = _wait_for(here, draw.randrange(4, 8))
        time.sleep(draw.random() * step_seconds)
        process.end(signal.SIGKILL)
        seen = here.told()
        found = here.restarts_with(big, images(), **options)
        kept.append(found is not None and found not in seen[:-1])  # the newest told of, or one saved since
    return {"killed saving": kept}


def _wait_for(here: Subject, steps: int) -> float:
    """Returns when it has told of so many steps: the seconds that the last of them took.

    Raises RuntimeError if that takes too long.
    """
    told, until, seconds = 0, time.monotonic() + PATIENCE, []
    while told < steps:
        if time.monotonic() > until:
            raise RuntimeError(f"{told} steps in {PATIENCE:.0f} s: {(here.folder / 'log').read_text()}")
        time.sleep(0.001)
        if len(here.told()) > told:
            told = len(here.told())
            seconds.append(time.monotonic())
    return seconds[-1] - seconds[-2]


def damaged(subject: Callable[[str], Subject], tries: int) -> dict[str, list[bool]]:
    """One byte of the newest checkpoint is changed: started again it refuses, or takes an earlier one."""
    draw, noticed = random.Random(0), []
    whole, options = subject("whole"), {"save_every": 3}
    whole.start(big, images(), {"dies_at": DIES_AT}, **options).end()
    *earlier, newest = whole.told()
    for number in range(1 + tries):
        here = subject(f"damaged-{number}")
        shutil.copytree(whole.folder, here.folder, symlinks=True)
        if number > 0:  # the first is left whole
            _flip_a_byte(here.newest(here.trial(None, None, None)), draw)
        found = here.restarts_with(big, images(), **options)
        if number == 0 and found != newest:
            raise RuntimeError(f"an undamaged checkpoint does not load: {(here.folder / 'log').read_text()}")
        noticed.append(found is None or found in earlier)
    return {"byte flipped": noticed[1:]}


def _flip_a_byte(checkpoint: Path, draw: random.Random) -> None:
    """Of all the bytes of a file, or of the files in a folder."""
    files = [checkpoint] if checkpoint.is_file() else sorted(file for file in checkpoint.rglob("*") if file.is_file())
    (file,) = draw.choices(files, [file.stat().st_size for file in files])
    content = bytearray(file.read_bytes())
    content[draw.randrange(len(content))] ^= draw.randrange(1, 256)
    file.write_bytes(content)


def poisoned(subject: Callable[[str], Subject], tries: int) -> dict[str, list[bool]]:
    """A NaN in one example, or in one gradient alone: whatever it does then, the weights stay finite."""
    spoilt = points()
    spoilt.tensors[0][7] = float("nan")
    kept = []
    for data, poisons in ((spoilt, False), (points(), True)):
        here = subject(f"poisoned-{poisons}")
        here.start(partial(small, 0.0), data, {"poisons": poisons}).end()
        kept.append(all(weight.isfinite().all() for weight in here.weights()))
    return {"NaN": kept}


def words() -> TensorDataset:
    """Eight texts of which 32, 4, 16, 2, … targets count."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randint(11, (2, 8, 32), generator=generator)
    for row, counted in enumerate((32, 4, 16, 2, 32, 4, 16, 2)):
        y[row, counted:] = IGNORE
    return TensorDataset(x, y)


def language() -> nn.Module:
    return nn.Sequential(nn.Embedding(11, 8), nn.Linear(8, 11)).double()


def accumulates(subject: Callable[[str], Subject], tries: int) -> dict[str, list[bool]]:
    """One step over four micro-batches with unequal numbers of targets: the gradient of all as one batch, in float64."""
    here, data = subject("accumulates"), words()
    here.start(language, data, steps=1, batch_size=2, accumulation=4, sgd=True, save_every=1000).end()
    torch.manual_seed(1)
    model = language()
    x, y = data.tensors
    F.cross_entropy(model(x).flatten(0, -2), y.flatten()).backward()
    expected = torch.cat([weight.grad.flatten() for weight in model.parameters()])
    pairs = zip(model.parameters(), here.weights(), strict=True)
    changed = torch.cat([(before.detach() - after).flatten() for before, after in pairs])
    return {"unequal targets": [bool((changed - expected).norm() < EXACT * expected.norm())]}


TRIALS = (resumes, killed, damaged, poisoned, accumulates)
COLUMNS = (*RESUMES, "killed saving", "byte flipped", "NaN", "unequal targets")
