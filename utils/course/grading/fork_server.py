"""A clean process that has imported what labs need and, for each submission, forks a judge and its workers.

It never reads a solution, a submission or a seed: what it does not hold, no worker forked from it can find in its memory.
The judge gets these by a line of its own, reads the lab, and asks here for workers, one after the other.
"""

import importlib
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import torch

from utils.course.grading import protocol, sandbox, worker
from utils.course.grading.judge import NotIsolated, Patience, RemoteAsk, as_record, judge
from utils.course.grading.submission import Unreadable, read_submission
from utils.course.notebooks.lab import read_lab
from utils.lab import plain_values

WARM = (
    "einops",
    "utils.figures.lab_results",
    "utils.loop",
    "utils.checks",
    "utils.napkin.papers",
    "utils.measure.profiler",
    "utils.measure.memory_model",
    "utils.checks.toy_problem",
)
JUDGE_MEMORY = 8 << 30  # bytes of memory that the judge of a submission may use
KNOWN = (  # environment variables that are kept: forked processes inherit the environment in memory
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV",
    "COURSE_DATA", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR",
)  # fmt: skip
DESCRIPTORS = 4  # at most, in one message
WORKERS_PER_SUBMISSION = 200


def main() -> None:
    """Serve the parent process over standard input, a socket, until it has gone."""
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    torch.set_num_threads(1)
    for module in WARM:
        importlib.import_module(module)
    half = torch.ones(8, 8, dtype=torch.float16)
    half @ half  # makes torch detect the CPU now, which a sandboxed worker could not do
    sandbox.die_with_parent()
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1 << 20, DESCRIPTORS)
        if not message:
            return
        (line,) = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        cage, seconds = _settings(message)
        (_execute if cage.command else _judged)(line, cage, seconds)
        control.sendall(b".")


def _settings(message: bytes) -> tuple[worker.Cage, float]:
    asked = plain_values.load(message)
    cage = worker.Cage(
        Path(asked["work"]),
        tuple(map(Path, asked["readable"])),
        tuple(map(Path, asked["hidden"])),
        sandbox.Limits(**asked["limits"]),
        asked["user"],
        asked["environment"],
        tuple(asked["command"]),
        asked["result"],
    )
    return cage, asked["seconds"]


def _judged(line: socket.socket, cage: worker.Cage, seconds: float) -> None:
    """Run a judge for the request on `line`, and its workers; all have ended when this returns."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            _judge(line, theirs)
        finally:
            os._exit(0)
    line.close()
    theirs.close()
    ended, keeper, own = os.pidfd_open(pid), None, cage
    until = time.monotonic() + seconds
    try:
        for number in range(WORKERS_PER_SUBMISSION):
            ready, _, _ = select.select([ours, ended], [], [], max(0.0, until - time.monotonic()))
            if ours not in ready or not ours.recv(1):
                return
            if keeper:
                keeper.end()
                with suppress(OSError):
                    worker.remove(own.work)
            own = cage._replace(work=cage.work / str(number))  # a worker must not see files of the one before
            own.work.mkdir()
            here, there = socket.socketpair()
            keeper = worker.start(own, there)
            there.close()
            socket.send_fds(ours, [b"w"], [here.fileno()])
            here.close()
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(ended)
        ours.close()
        if keeper:
            keeper.end()


def _execute(line: socket.socket, cage: worker.Cage, seconds: float) -> None:
    """A worker that becomes the cage's command, for at most this long; everything that it started has ended on return."""
    here, there = socket.socketpair()
    keeper = worker.start(cage, there)
    there.close()
    keeper.wait(seconds)
    keeper.end()
    here.close()
    line.close()


def _judge(line: socket.socket, zygote: socket.socket) -> None:
    sandbox.die_with_parent()
    resource.setrlimit(resource.RLIMIT_AS, (JUDGE_MEMORY, JUDGE_MEMORY))

    def new_worker() -> socket.socket:
        zygote.sendall(b"w")
        message, descriptors, _, _ = socket.recv_fds(zygote, 1, DESCRIPTORS)
        if not message:
            raise protocol.Broken("there are no more workers for this submission")
        return socket.socket(fileno=descriptors[0])

    job = protocol.receive(line)
    raw = Path(job["path"]).read_bytes()
    lab = read_lab(job["lab"])
    try:
        submission = read_submission(raw, lab)
    except Unreadable as error:
        protocol.send(line, {"unreadable": str(error)})
        return
    until = time.monotonic() + job["seconds"]
    ask = RemoteAsk(new_worker, submission, job["secret"], Patience(**job["patience"]), until, job["strict"])
    try:
        verdicts = judge(lab, ask, job["seed"])
    except NotIsolated as error:
        protocol.send(line, {"refused": str(error)})
        return
    ask.end()
    protocol.send(
        line,
        {
            "verdicts": as_record(verdicts),
            "notes": [*submission.notes, *(f"{name}: {why}" for name, why in ask.skipped.items())],
            "raised": {name: list(told) for name, told in ask.raised.items()},
            "isolation": ask.isolation,
            "code": submission.code,
        },
    )


class Zygote:
    """The fork server, seen from the trusted side: started once, serves one submission at a time."""

    def __init__(self):
        self.process: subprocess.Popen | None = None

    def grade(self, job: dict, cage: worker.Cage, seconds: float) -> dict:
        """The judge's answer about `job` (see grade.grade_one). protocol.Broken if it does not finish."""
        with self._asked(cage, seconds) as line:
            protocol.send(line, job, seconds)
            return protocol.receive(line, seconds + 5)

    def execute(self, cage: worker.Cage, seconds: float) -> None:
        """Run the cage's command, to its end or for `seconds`."""
        with self._asked(cage, seconds):
            pass

    @contextmanager
    def _asked(self, cage: worker.Cage, seconds: float) -> Iterator[socket.socket]:
        """A connection to the process that serves the request; at the end all processes of the submission have ended."""
        if self.process is None or self.process.poll() is not None:
            self._start()
        line, theirs = socket.socketpair()
        settings = {
            "work": str(cage.work),
            "readable": [str(path) for path in cage.readable],
            "hidden": [str(path) for path in cage.hidden],
            "limits": asdict(cage.limits),
            "user": cage.user,
            "environment": cage.environment,
            "command": list(cage.command),
            "result": cage.result,
            "seconds": seconds,
        }
        with line:
            with theirs:
                socket.send_fds(self.control, [plain_values.dump(settings)], [theirs.fileno()])
            try:
                yield line
            finally:
                self._wait(seconds + 30)

    def _start(self) -> None:
        self.control, theirs = socket.socketpair()
        environment = {name: os.environ[name] for name in KNOWN if name in os.environ} | {"OMP_NUM_THREADS": "1"}
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "utils.course.grading.fork_server"], stdin=theirs, env=environment
            )

    def _wait(self, seconds: float) -> None:
        """Wait until the processes of the submission have ended; kill a zygote that does not report this."""
        self.control.settimeout(seconds)
        try:
            if self.control.recv(1) == b".":
                return
        except OSError:
            pass
        self.end()

    def end(self) -> None:
        if self.process:
            self.control.close()
            self.process.kill()
            self.process.wait()
        self.process = None


if __name__ == "__main__":
    main()
