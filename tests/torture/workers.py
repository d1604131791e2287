"""Workers that raise, are killed, end, or hang: an error that names the example, never a hang."""

import os
import random
import re
import signal
import time
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import torch
from helpers.resumable_run import EXAMPLES, Noisy
from torch import Tensor, nn
from torture.kill import RUNS_PER_KILL
from torture.tally import Tally
from torture.victims import config_of, start

from utils.loop import train
from utils.loop.metrics import cross_entropy_sum

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


IN_A_STEP = "is killed in a step"  # by the parent, in the middle of one
KILLING = "now the worker is killed"
CALLS = 60  # of the loss in a run: 30 steps of two micro-batches, and some validations


def workers(folder: Path, count: int, seed: int = 0) -> Tally:
    """Each trouble at a random example, or a worker's death in a random step of its parent's; one worker or two."""
    tally, draw = Tally("workers in trouble"), random.Random(seed)
    attempts = 0
    while tally.count < count:
        attempts += 1
        if attempts > RUNS_PER_KILL * (count + 1):
            tally.wrong.append(f"{IN_A_STEP}: no worker was killed: nothing was tried")
            break
        what = [*TROUBLES, IN_A_STEP][tally.count % (len(TROUBLES) + 1)]
        log = folder / f"log-{attempts}"
        processes = draw.choice((1, 2))
        if what == IN_A_STEP:
            call = draw.randrange(CALLS)
            work, where = partial(_train_and_kill, call, processes), f"at call {call} of the loss"
            codes = (0, 1)  # the worker may have handed out all its batches by then
            words = r"a worker ended \(SIGKILL\) (at example \d+|before its first example)"
        else:
            item = draw.randrange(2, EXAMPLES)  # the first two are tried beforehand
            work, where = partial(_train, Trouble(item, what), draw.random() < 0.3, processes), f"at example {item}"
            codes, words = (1,), rf".* example {item}\b"
        victim = start(work, log)
        try:
            code = victim.end()
        except RuntimeError as hangs:
            code = str(hangs)
        said = log.read_text().splitlines()
        if what == IN_A_STEP and KILLING not in said and code == 0:
            continue  # the run has fewer steps with workers than this
        tally.count += 1
        tally.notes[what] += 1
        if code not in codes or (code == 1 and not (said and re.match(f"RuntimeError: ({words})", said[-1]))):
            tally.wrong.append(f"{what} {where}: exit code {code}, {said[-1:] or 'not a word'}")
        if victim.left_behind():
            tally.wrong.append(f"{what} {where}: a worker was left behind")
    return tally


def _train(troubled: Trouble, validating: bool, processes: int) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
    train_data, val_data = (Noisy(), troubled) if validating else (troubled, Noisy())
    train(model, train_data, val_data, config_of(workers=processes, worker_timeout=TIMEOUT))


def _train_and_kill(call: int, processes: int) -> None:
    calls = iter(range(call + 1))

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        alive = active_children()  # none while the loss is tried beforehand
        if alive and next(calls, None) == call:
            print(KILLING, flush=True)
            worker = max(process.pid for process in alive)
            os.kill(worker, signal.SIGKILL)
            os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)  # SIGCHLD has come
        return cross_entropy_sum(outputs, targets)

    torch.manual_seed(1)
    train(nn.Linear(5, 2), Noisy(), Noisy(), config_of(workers=processes), loss=loss)
