"""Tiny runs to be killed, each in a process forked from this one, which has imported torch and never trains itself."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import util
from pathlib import Path
from types import FrameType

import torch
import torch._dynamo  # which takes most of a second, and which the first optimizer of each victim would import
from helpers.resumable_run import Noisy, outcome
from torch import nn

from utils.loop import checkpoint, train
from utils.loop.config import Config
from utils.loop.run_folder import RunFolder

STEPS, SAVE_EVERY = 30, 2
PATIENCE = 120.0  # seconds after which a run that should have ended is called hanging


def config_of(**changes) -> Config:
    """Everything on that draws at random or is saved: a checkpoint every other step, a validation every seventh."""
    options = {
        "steps": STEPS, "batch_size": 16, "accumulation": 2, "seed": 3, "lr": 3e-2, "warmup": 5, "schedule": "cosine",
        "clip": 0.5, "ema": 0.9, "log_every": 2, "val_every": 7, "save_every": SAVE_EVERY, "device": "cpu",
        "deterministic": False,
    }  # fmt: skip
    return Config(**options | changes)


def train_to_the_end(folder: Path, run: Path | None = None, **changes) -> None:
    """Train in `run` (`folder`/run), and write what came of it in `folder`."""
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
    result = train(model, Noisy(), Noisy(), config_of(**changes), run=run or folder / "run")
    torch.save(outcome(result), folder / "outcome")


def train_prepared(prepare: Callable[[], None], *arguments, **options) -> None:
    """As train_to_the_end, after `prepare()`."""
    prepare()
    train_to_the_end(*arguments, **options)


def call_before(owner: object, name: str, times: int, do: Callable[[], None]) -> None:
    """Call `do` before the call number `times`, counted from 0, of a function of a module or class."""
    function, numbers = getattr(owner, name), iter(range(times + 1))

    def preceded(*arguments, **options):
        if next(numbers, None) == times:
            do()
        return function(*arguments, **options)

    setattr(owner, name, preceded)


@dataclass
class Victim:
    """A forked process that tells, by four bytes in a pipe, the step of each checkpoint that it has saved."""

    pid: int
    pipe: int
    steps: list[int] = field(default_factory=list)  # of the saves that returned

    def _read(self) -> bool:
        """Note the saves told so far, waiting for one; False at its end."""
        told = os.read(self.pipe, 4096)  # each write of four bytes is whole, so each read is a multiple of four
        self.steps += [int.from_bytes(told[i : i + 4], "little") for i in range(0, len(told), 4)]
        return bool(told)

    def wait_for(self, saves: int) -> None:
        """Returns once it has saved so often, or ended."""
        while len(self.steps) < saves and self._read():
            pass

    def stand_still(self) -> None:
        """SIGSTOP; returns when it has stopped or ended. SIGCONT lets it go on."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def end(self, number: int = 0) -> int:
        """Send it this signal, and wait for its end; returns its exit status, below 0 if a signal ended it.

        Raises RuntimeError if it does not end within PATIENCE.
        """
        os.kill(self.pid, number)
        until = time.monotonic() + PATIENCE
        while (ended := os.waitpid(self.pid, os.WNOHANG))[0] == 0:
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise RuntimeError(f"a run still goes on after {PATIENCE:.0f} s")
            time.sleep(0.001)
        os.set_blocking(self.pipe, False)  # orphaned workers may hold its other end open
        with suppress(BlockingIOError):
            while self._read():
                pass
        os.close(self.pipe)
        return os.waitstatus_to_exitcode(ended[1])

    def has_others(self) -> bool:
        """Whether a process that it started lives now."""
        groups = []
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended meanwhile
                groups.append(int(stat.read_bytes().rpartition(b")")[2].split()[2]))  # a name may be any bytes
        return groups.count(self.pid) > 1

    def left_behind(self) -> bool:
        """Whether a process that it started lives on after its end, seconds later; it is killed then."""
        for _ in range(100):
            try:
                os.killpg(self.pid, 0)
            except ProcessLookupError:
                return False
            time.sleep(0.1)
        os.killpg(self.pid, signal.SIGKILL)
        return True


def start(work: Callable[[], None], log: Path, signal_in_save: tuple[int, int, int] | None = None) -> Victim:
    """Fork a process that does `work`, with what it prints in `log`.

    signal_in_save: (n, line, number): it sends itself that signal in its save number n, before the line-th line of Python
    that runs there.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        with suppress(OSError):  # it has done so itself, or has ended
            os.setpgid(pid, pid)
        os.close(writing)
        return Victim(pid, reading)
    code = 1
    try:  # nothing may return from here into the parent's code
        os.setpgid(0, 0)  # its workers are in this group too
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it
        util._finalizer_registry.clear()  # the parent's
        os.close(reading)
        output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        torch.set_num_threads(1)
        _tell_of_saves(writing, signal_in_save)
        work()
        code = 0
    except SystemExit as error:
        code = error.code
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        with suppress(BaseException):
            util._exit_function()  # as any process of Python ends: it waits for its workers, and sweeps up its files
        os._exit(code)


def together(work: Callable[[int], None], world: int, folder: Path) -> list[tuple[int | str, str]]:
    """Do `work`, which is told its rank, in so many processes at once; of each its exit status, or that it goes on still,
    and the last line that it printed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    logs = [folder / f"log-{rank}" for rank in range(world)]
    victims = [start(partial(_as_rank, work, rank, world, port), log) for rank, log in enumerate(logs)]
    ended = []
    for victim, log in zip(victims, logs, strict=True):
        try:
            code = victim.end()
        except RuntimeError as error:
            code = str(error)
        ended.append((code, log.read_text().splitlines()[-1:]))
    return [(code, line[0] if line else "") for code, line in ended]


def _as_rank(work: Callable[[int], None], rank: int, world: int, port: int) -> None:
    if world > 1:
        told = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        os.environ.update({name: str(value) for name, value in told.items()})
    work(rank)


def _tell_of_saves(pipe: int, signal_in_save: tuple[int, int, int] | None) -> None:
    """Around RunFolder.save, which writes a checkpoint, deletes old ones and writes the metadata."""
    whole_save, write, numbers = RunFolder.save, checkpoint.save, iter(range(sys.maxsize))

    def told(folder: Path, step: int, state: dict, kind: str, *others) -> Path:
        path = write(folder, step, state, kind, *others)
        if kind == "step":
            os.write(pipe, step.to_bytes(4, "little"))
        return path

    def cut_short(self: RunFolder, *arguments, **options) -> None:
        if signal_in_save and next(numbers) == signal_in_save[0]:
            sys.settrace(_Countdown(*signal_in_save[1:]))
        whole_save(self, *arguments, **options)
        sys.settrace(None)

    checkpoint.save, RunFolder.save = told, cut_short


class _Countdown:
    """A tracer that sends this process a signal when so many lines have run."""

    def __init__(self, lines: int, number: int = signal.SIGKILL):
        self.left, self.number = lines, number

    def __call__(self, frame: FrameType, event: str, argument: object) -> "_Countdown":
        if event == "line":
            self.left -= 1
            if self.left == -1:
                os.kill(os.getpid(), self.number)
        return self


def lines_of_a_save(folder: Path) -> int:
    """How many lines of Python run in one save, about."""
    counted = _Countdown(sys.maxsize)
    run = RunFolder(folder, config_of(), 1)
    run.metadata["sessions"].append({})
    folder.mkdir(parents=True)
    tensors = {str(i): torch.zeros(2) for i in range(40)}  # about as many as in a victim's state
    state = {"model": tensors, "progress": {"best": None}}
    sys.settrace(counted)
    run.save(state, 1, 0.0)
    sys.settrace(None)
    return sys.maxsize - counted.left
