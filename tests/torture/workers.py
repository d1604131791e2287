"""Workers that raise, are killed, end, or hang: an error that names the example, never a hang."""

import os
import random
import re
import signal
import time
from functools import partial
from pathlib import Path

import torch
from resumable import EXAMPLES, Noisy
from torch import nn
from torture.tally import Tally
from torture.victims import config_of, start

from utils.loop import train

TIMEOUT = 3.0  # seconds for a hanging worker


class Trouble(Noisy):
    """At example `item` something happens."""

    def __init__(self, item: int, what: str):
        super().__init__()
        self.item, self.what = item, what

    def __getitem__(self, i):
        if i == self.item:
            TROUBLES[self.what]()
        return super().__getitem__(i)


def _raise() -> None:
    raise KeyError("no such file")


TROUBLES = {
    "raises": _raise,
    "is killed": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exits": lambda: os._exit(7),
    "hangs": lambda: time.sleep(1e6),
}


def workers(folder: Path, count: int, seed: int = 0) -> Tally:
    """Each trouble at a random example, in training or in validation, with one worker or two."""
    tally, draw = Tally("workers in trouble"), random.Random(seed)
    for number in range(count):
        what = list(TROUBLES)[number % len(TROUBLES)]
        item = draw.randrange(2, EXAMPLES)  # the first two are tried beforehand
        validating, processes = draw.random() < 0.3, draw.choice((1, 2))
        log = folder / f"log-{number}"
        victim = start(partial(_train, Trouble(item, what), validating, processes), log)
        code = victim.end()
        said = log.read_text().splitlines()
        tally.count += 1
        tally.notes[what] += 1
        if code != 1 or not said or not re.match(rf"RuntimeError: .* example {item}\b", said[-1]):
            tally.wrong.append(f"{what} at example {item}: exit code {code}, {said[-1:] or 'not a word'}")
        if victim.left_behind():
            tally.wrong.append(f"{what} at example {item}: a worker was left behind")
    return tally


def _train(troubled: Trouble, validating: bool, processes: int) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
    train_data, val_data = (Noisy(), troubled) if validating else (troubled, Noisy())
    train(model, train_data, val_data, config_of(workers=processes, worker_timeout=TIMEOUT))
