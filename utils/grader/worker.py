"""The worker process, which runs a student's code, and its keeper: forked from a clean process, sandboxed, killed together.

It runs the notebook's cells (see cells) and then answers questions. Nothing else that it says is trusted.
"""

import os
import random
import re
import select
import signal
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from utils.grader import protocol, sandbox
from utils.grader.cells import Cells
from utils.grader.clock import Clock
from utils.grader.sandbox import Cage
from utils.lab.ask import evaluate, kinds_and_text_of

LOOK_SECONDS = 0.2  # between two measurements of what a worker and its children use
TICK = 1 / os.sysconf("SC_CLK_TCK")
SOCKET_BUFFER = 212_992  # bytes that a full socket keeps in the kernel, unless its process may ask for more
CHUNK = 1 << 20
LONGEST_TEXT = 2_000  # characters of an exception's text that are sent
ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "USER": "student",
}


def start(cage: Cage, conversation: socket.socket, denied: str, clock: Clock) -> "Keeper":
    """Fork a keeper, which forks the worker; the worker talks over `conversation`, and `clock` tells how long it worked.

    denied: why it gets no namespaces of its own, or "" (see sandbox.namespaces_denied).
    """
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    pid = sandbox.forked(lambda: _keep(cage, conversation, theirs, denied, clock))
    theirs.close()
    return Keeper(pid, ours)


class Keeper(NamedTuple):
    """The parent of a worker, seen from its own parent."""

    pid: int
    line: socket.socket

    def wait(self, seconds: float) -> None:
        """Wait until the worker has ended, or for `seconds`."""
        ended = os.pidfd_open(self.pid)
        select.select([ended], [], [], seconds)
        os.close(ended)

    def end(self, seconds: float = 5.0) -> None:
        """Kill the worker and all that it has started."""
        self.line.close()
        until = time.monotonic() + seconds
        while os.waitpid(self.pid, os.WNOHANG)[0] == 0:
            if time.monotonic() > until:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                return
            time.sleep(0.001)


def _keep(cage: Cage, conversation: socket.socket, line: socket.socket, denied: str, clock: Clock) -> None:
    os.setsid()
    sandbox.adopt_orphans()
    if not denied:  # else it must live on to end the worker's children; it hears of its parent's end by `line`
        sandbox.die_with_parent()
    _close_all_but(conversation.fileno(), line.fileno())
    if not denied:
        sandbox.unshared()
    outside = os.open(cage.work, os.O_RDONLY | os.O_DIRECTORY)  # the folder itself, whatever will be mounted over it

    def work() -> None:
        os.setpgid(0, 0)  # a signal to its own group does not reach the keeper
        line.close()
        os.close(outside)
        clock.close()
        _work(cage, conversation, denied)

    worker = sandbox.forked(work)
    conversation.close()
    try:
        if not _watch(cage, worker, line, outside, denied, clock) and _was_killed(worker):
            clock.say_killed()
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        if denied:
            _end_children()
        else:
            os.waitpid(worker, 0)  # process 1 of its namespace: its children end with it
    if cage.result:
        _bring_out(cage, outside)


def _watch(cage: Cage, worker: int, line: socket.socket, outside: int, denied: str, clock: Clock) -> bool:
    """Until the worker ends, is to be ended, or uses more than it may; measures how long it is at work.

    Whether it has used up what it may.
    """
    ended = os.pidfd_open(worker)
    spent: dict[int, float] = {}
    before, seen = 0.0, time.monotonic()
    while not select.select([line, ended], [], [], LOOK_SECONDS)[0]:
        used = _used(os.getpid() if denied else worker, spent, own_network=not denied)
        now = time.monotonic()
        worked = max(0.0, used.cpu - before)
        idle = not used.runnable and worked < TICK
        clock.add(max(worked, min(now - seen, 2 * LOOK_SECONDS) if idle else 0.0))
        before, seen = used.cpu, now
        mounted = os.stat(cage.work).st_dev != os.fstat(outside).st_dev  # then the mount limits its size
        if (
            used.memory > cage.limits.memory
            or used.cpu > cage.limits.cpu
            or not (mounted or _bytes_in(cage.work) <= cage.limits.disk)
        ):
            return True
    return before > cage.limits.cpu - 1  # the kernel may have been the first to see it


def _was_killed(worker: int) -> bool:
    """Whether the worker has ended by a SIGKILL. Of its own it can send itself none where it is process 1 of a namespace."""
    ended = os.waitid(os.P_PID, worker, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    return ended is not None and (ended.si_code, ended.si_status) == (os.CLD_KILLED, signal.SIGKILL)


class Used(NamedTuple):
    """Of a worker and all that it has started: bytes of memory, seconds of CPU time, and whether any of it could run."""

    memory: int
    cpu: float
    runnable: bool


def _used(root: int, spent: dict[int, float], own_network: bool) -> Used:
    """The kernel limits these for each process alone, and the buffers of sockets not at all.

    spent: process -> seconds of CPU time when it was last seen; updated. Read as bytes: a process may give itself any name.
    """
    memory, reaped, runnable = 0, 0.0, False
    for pid in _family(root):
        try:
            counted = _stat(f"/proc/{pid}")
            pages = re.findall(rb"^Rss(?:Anon|Shmem):\s*(\d+) kB", Path(f"/proc/{pid}/status").read_bytes(), re.M)
            tasks = (f"/proc/{pid}/task/{task}" for task in os.listdir(f"/proc/{pid}/task"))
            runnable = runnable or any(_stat(task)[0] in b"RD" for task in tasks)
        except OSError:
            continue
        spent[pid] = sum(map(int, counted[11:13])) * TICK
        reaped += sum(map(int, counted[13:15])) * TICK
        memory += 1024 * sum(map(int, pages))
    if own_network:
        with suppress(OSError):
            pid = _family(root)[0]
            memory += SOCKET_BUFFER * (Path(f"/proc/{pid}/net/unix").read_bytes().count(b"\n") - 1)
    return Used(memory, max(sum(spent.values()), reaped), runnable)


def _stat(process: str) -> list[bytes]:
    """The fields of /proc/PID/stat after the name: state, parent, …"""
    return Path(process, "stat").read_bytes().rpartition(b")")[2].split()


def _family(root: int) -> list[int]:
    """The processes below `root`, with it; all that /proc shows, where it is the worker's own, which does not show us."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    if not os.path.exists("/proc/self"):
        return pids
    children: dict[int, list[int]] = {}
    for pid in pids:
        children.setdefault(_parent_of(pid), []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return [pid for pid in found if pid != os.getpid()]


def _end_children() -> None:
    """Kill every child of this process, newly inherited ones too, until none is left."""
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        children = _family(os.getpid())
        if not children:
            return
        for pid in children:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.001)


def _parent_of(pid: int) -> int:
    try:
        return int(_stat(f"/proc/{pid}")[1])
    except OSError:
        return 0


def end_all_of(user: int) -> None:
    """Kill every process of this user, of whom this must be root: what outlived its keeper, too."""

    def kill() -> None:
        os.setresuid(user, user, user)
        os.kill(-1, signal.SIGKILL)

    os.waitpid(sandbox.forked(kill), 0)


def _bytes_in(folder: Path) -> int:
    """The bytes that the files under it occupy; infinity if they cannot be counted: too many, too deep, or unreadable."""
    total = count = 0
    todo = [str(folder)]
    while todo:
        try:
            with os.scandir(todo.pop()) as entries:
                for entry in entries:
                    count += 1
                    if count > sandbox.MOST_FILES:
                        return sys.maxsize
                    with suppress(FileNotFoundError):
                        total += 512 * entry.stat(follow_symlinks=False).st_blocks
                        if entry.is_dir(follow_symlinks=False):
                            todo.append(entry.path)
        except FileNotFoundError:
            continue  # deleted meanwhile
        except OSError:
            return sys.maxsize
    return total


def _bring_out(cage: Cage, outside: int) -> None:
    """Copy the worker's result to where it is to be, if it was made in a folder that ends with the worker."""
    with suppress(OSError):
        inner = os.open(cage.work / cage.result, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        if stat.S_ISREG(os.fstat(inner).st_mode):
            outer = os.open(cage.result, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=outside)
            while part := os.read(inner, CHUNK):
                os.write(outer, part)


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


def _work(cage: Cage, conversation: socket.socket, denied: str) -> None:
    mounts = denied or sandbox.root_of_its_own(cage.work, cage.readable, cage.hidden, cage.limits)
    os.environ.clear()
    os.environ.update(ENVIRONMENT | cage.environment | dict.fromkeys(("HOME", "TMPDIR"), str(cage.work)))
    tempfile.tempdir = None  # what is kept there is the grader's own folder, into which no submission may write
    os.chdir(cage.work)
    sys.path.insert(0, "")  # as in Jupyter: what a cell writes into its folder can be imported
    sandbox.first_to_be_killed()
    states = sandbox.locked_in(
        cage.work, cage.readable, cage.limits, cage.user, namespaces=denied or sandbox.ON, mounts=mounts
    )
    states["files"] = sandbox.files_of(states, cage.readable, cage.hidden)
    if cage.command:
        os.execve(cage.command[0], cage.command, dict(os.environ))
    protocol.send(conversation, states)
    _serve(conversation)


def _serve(conversation: socket.socket) -> None:
    book = Cells()
    given: dict = {}  # names that the lab's own cells define, with their values
    while True:
        try:
            request = protocol.receive(conversation)
        except protocol.Broken:
            return
        _seed(request["number"])
        if "cells" in request:
            for name, source in request["cells"]:
                protocol.send(conversation, {"begun": name})
                protocol.send(conversation, {"ended": name, **_answer(book, book.run, name, source)})
                given |= {
                    kept: book.namespace[kept] for kept in request["given"].get(name, ()) if kept in book.namespace
                }
            protocol.send(conversation, {"number": request["number"]})
        else:
            answer = _answer(book, evaluate, request["code"], request["inputs"], {**book.namespace, **given})
            try:
                protocol.send(conversation, {"number": request["number"], **answer})
            except ValueError as error:
                protocol.send(conversation, {"number": request["number"], "raised": kinds_and_text_of(error)})


def _answer(book: Cells, work: Callable, *arguments) -> dict:
    """{"value": its result}, or {"raised": its exception, "place": where in the notebook}, in plain values."""
    try:
        return {"value": work(*arguments)}
    except BaseException as error:  # also SystemExit: there is no notebook to leave
        try:
            kinds, text = kinds_and_text_of(error)
        except BaseException:
            kinds, text = ("RuntimeError",), "an exception that cannot say what it is"
        try:
            place = book.place(error)
        except BaseException:
            place = None
        return {"raised": (kinds[:10], str(text)[:LONGEST_TEXT]), "place": place}


def _seed(seed: int) -> None:
    if torch.cuda.is_initialized() or hasattr(torch, "gpu"):
        torch.manual_seed(seed)
    else:  # torch.manual_seed notes where it was called from, for a GPU that may come: a millisecond for each question
        torch.default_generator.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the stream that students draw from
