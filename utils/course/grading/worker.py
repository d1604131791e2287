"""The process that holds a student's code, and the one that keeps it: forked from a clean process, locked in, ended whole.

It runs the notebook's cells in a plain namespace and then answers questions. Nothing it says is believed beyond that.
"""

import os
import random
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from utils.course.grading import frames, sandbox
from utils.lab import described, evaluate

DISK_SECONDS = 0.2  # between two looks at what a worker has written
MOST_FILES = 20_000
LONGEST_TEXT = 2_000  # characters of an exception's text that leave
ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "USER": "student",
}


class Cage(NamedTuple):
    """Where and how a worker is locked in. hidden: folders that it must not see; readable: what it may; user: if root.

    command: a program that it becomes, instead of answering questions.
    """

    work: Path
    readable: tuple[Path, ...]
    hidden: tuple[Path, ...]
    limits: sandbox.Limits
    user: int
    environment: dict[str, str]
    command: tuple[str, ...] = ()


def start(cage: Cage, conversation: socket.socket) -> "Keeper":
    """Fork a keeper, which forks the worker; the worker talks over `conversation`."""
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        theirs.close()
        return Keeper(pid, ours)
    try:  # nothing may return from here into the parent's code
        _keep(cage, conversation, theirs)
    finally:
        os._exit(1)


class Keeper(NamedTuple):
    """The parent of a worker, as its own parent sees it."""

    pid: int
    line: socket.socket

    def wait(self, seconds: float) -> None:
        """Until the worker has ended, or so long."""
        ended = os.pidfd_open(self.pid)
        select.select([ended], [], [], seconds)
        os.close(ended)

    def end(self, seconds: float = 5.0) -> None:
        """End the worker and all that it has started."""
        self.line.close()
        until = time.monotonic() + seconds
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return
            time.sleep(0.001)


def _keep(cage: Cage, conversation: socket.socket, line: socket.socket) -> None:
    os.setsid()
    sandbox.die_with_parent()
    sandbox.adopt_orphans()
    _close_all_but(conversation.fileno(), line.fileno())
    states = sandbox.unshared()
    worker = os.fork()
    if worker == 0:
        line.close()
        _work(cage, conversation, states)
        os._exit(0)
    conversation.close()
    ended = os.pidfd_open(worker)
    while not select.select([line, ended], [], [], DISK_SECONDS)[0] and _bytes_in(cage.work) <= cage.limits.disk:
        pass
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)
    _end_children()
    os._exit(0)


def _end_children() -> None:
    """SIGKILL for every child of this process, those that it has just inherited too, until none is left."""
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        children = [pid for pid in _processes() if _parent_of(pid) == os.getpid()]
        if not children:
            try:
                os.waitpid(-1, 0)  # where /proc shows others than ours
            except ChildProcessError:
                return
        for pid in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _parent_of(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _bytes_in(folder: Path) -> int:
    """What the files under it occupy; infinity for more than MOST_FILES of them, which need not be looked at one by one."""
    total = count = 0
    for inside, _, names in os.walk(folder):
        for name in names:
            count += 1
            if count > MOST_FILES:
                return sys.maxsize
            with suppress(OSError):
                total += 512 * os.lstat(os.path.join(inside, name)).st_blocks
    return total


def _close_all_but(*kept: int) -> None:
    """Standard streams become /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    low = 3
    for descriptor in sorted(kept):
        os.closerange(low, descriptor)
        low = descriptor + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


def _work(cage: Cage, conversation: socket.socket, states: dict[str, str]) -> None:
    alone = states["namespaces"] == sandbox.ON
    needed = (*cage.readable, cage.work)
    states["mounts"] = (
        sandbox.mounts_of_its_own(cage.hidden, needed, cage.limits.file_bytes) if alone else "no namespaces"
    )
    os.environ.clear()
    os.environ.update(ENVIRONMENT | cage.environment | dict.fromkeys(("HOME", "TMPDIR"), str(cage.work)))
    os.chdir(cage.work)
    writable = (Path("/dev/shm"),) if states["mounts"] == sandbox.ON else ()
    states |= sandbox.locked_in(cage.work, cage.readable, cage.limits, cage.user, writable)
    sandbox.die_with_parent()  # changing the user has undone it
    if cage.command:
        os.execve(cage.command[0], cage.command, dict(os.environ))
    frames.send(conversation, states)
    _serve(conversation)


def _serve(conversation: socket.socket) -> None:
    namespace: dict = {"__name__": "__main__", "get_ipython": _Shell}
    given: dict = {}  # what the lab's own cells define, as they left it
    while True:
        try:
            request = frames.receive(conversation)
        except frames.Broken:
            return
        if "cells" in request:
            _seed(request["number"])
            for name, source in request["cells"]:
                frames.send(conversation, {"begun": name})
                frames.send(conversation, {"ended": name, **_answer(_run, name, source, namespace)})
                given |= {kept: namespace[kept] for kept in request["given"].get(name, ()) if kept in namespace}
            frames.send(conversation, {"number": request["number"]})
        else:
            _seed(request["number"])
            answer = _answer(evaluate, request["code"], request["inputs"], {**namespace, **given})
            try:
                frames.send(conversation, {"number": request["number"], **answer})
            except ValueError as error:
                frames.send(conversation, {"number": request["number"], "raised": described(error)})


def _run(name: str, source: str, namespace: dict) -> None:
    exec(compile(source, f"<{name}>", "exec"), namespace)


def _answer(work: Callable, *arguments) -> dict:
    """{"value": what it returns} or {"raised": what it raised, as it crosses}."""
    try:
        return {"value": work(*arguments)}
    except BaseException as error:  # also SystemExit: there is no notebook to leave
        try:
            kinds, text = described(error)
        except BaseException:
            kinds, text = ("RuntimeError",), "an exception that cannot say what it is"
        return {"raised": (kinds[:10], str(text)[:LONGEST_TEXT])}


class _Shell:
    """What magics and shell lines reach: a get_ipython() whose every method says that there is no shell here."""

    def __getattr__(self, name: str):
        raise RuntimeError(f"there is no IPython where notebooks are graded: {name} does nothing here")


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the stream that students draw from
