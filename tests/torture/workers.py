"""Workers that raise, are killed, end, or hang: an error that names the example, never a hang."""

import multiprocessing.process
import os
import random
import re
import signal
import sys
import time
from functools import partial
from pathlib import Path
from types import FrameType

import torch
from helpers.resumable_run import EXAMPLES, Noisy
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


AT_ANY_LINE = "is killed at a line of its parent's"
KILLED = "a worker was killed"  # as the victim says of its own
LINES = 10000  # of TRACED; more run in a parent while it has workers
TRACED = ("order.py", "workers.py", "train.py", "dataloader.py", "contextlib.py", "queues.py", "connection.py")


def workers(folder: Path, count: int, seed: int = 0) -> Tally:
    """Each trouble at a random example, or a worker's death at a random line of its parent's; one worker or two."""
    tally, draw = Tally("workers in trouble"), random.Random(seed)
    for number in range(count):
        what = [*TROUBLES, AT_ANY_LINE][number % (len(TROUBLES) + 1)]
        log = folder / f"log-{number}"
        processes = draw.choice((1, 2))
        if what == AT_ANY_LINE:
            line = int(LINES ** draw.random())  # half of them while the first workers are started
            work, where = partial(_train_and_kill, line, processes), f"{line}"
            codes = (0, 1)  # it may have handed out all its batches by then
            words = r"(the worker that fetched example \d+|a worker) ended \(SIGKILL\)"
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
        tally.count += 1
        tally.notes[what] += 1
        if code not in codes or (code == 1 and not (said and re.match(f"RuntimeError: ({words})", said[-1]))):
            tally.wrong.append(f"{what} {where}: exit code {code}, {said[-1:] or 'not a word'}")
        if what == AT_ANY_LINE and KILLED not in said:
            tally.wrong.append(f"{what} {where}: it was not")
        if victim.left_behind():
            tally.wrong.append(f"{what} {where}: a worker was left behind")
    return tally


def _train(troubled: Trouble, validating: bool, processes: int) -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 2))
    train_data, val_data = (Noisy(), troubled) if validating else (troubled, Noisy())
    train(model, train_data, val_data, config_of(workers=processes, worker_timeout=TIMEOUT))


def _train_and_kill(line: int, processes: int) -> None:
    sys.settrace(_Killer(line))
    torch.manual_seed(1)
    train(nn.Linear(5, 2), Noisy(), Noisy(), config_of(workers=processes, steps=14))


class _Killer:
    """A tracer that kills a worker when so many lines have run in this process since the first was started."""

    def __init__(self, lines: int):
        self.left, self.parent = lines, os.getpid()

    def __call__(self, frame: FrameType, event: str, argument: object) -> "_Killer | None":
        if not frame.f_code.co_filename.endswith(TRACED) or os.getpid() != self.parent:
            return None
        started = [process.pid for process in multiprocessing.process._children if process._popen]
        if event == "line" and started:
            self.left -= 1
            if self.left == 0:
                worker = max(started)
                os.kill(worker, signal.SIGKILL)
                os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)  # SIGCHLD has come
                os.write(2, f"{KILLED}\n".encode())
        return self
