"""The worker process, which runs a student's code, and its keeper: forked from a clean process, sandboxed, killed together.

It runs the notebook's cells in a plain namespace and then answers questions. Nothing else that it says is trusted.
"""

import os
import random
import re
import select
import signal
import socket
import stat
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from utils.course.grading import protocol, sandbox
from utils.lab.ask import described, evaluate

LOOK_SECONDS = 0.2  # between two measurements of what a worker and its children use
TICKS = os.sysconf("SC_CLK_TCK")
CHUNK = 1 << 20
LONGEST_TEXT = 2_000  # characters of an exception's text that are sent
ENVIRONMENT = {
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "OMP_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "USER": "student",
}


class Cage(NamedTuple):
    """Where and how a worker is locked in. hidden: folders that it must not see; readable: what it may; user: if root.

    command: a program that it becomes, instead of answering questions; result: the file in `work` that comes of it.
    """

    work: Path
    readable: tuple[Path, ...]
    hidden: tuple[Path, ...]
    limits: sandbox.Limits
    user: int
    environment: dict[str, str]
    command: tuple[str, ...] = ()
    result: str = ""


def start(cage: Cage, conversation: socket.socket) -> "Keeper":
    """Fork a keeper, which forks the worker; the worker talks over `conversation`."""
    ours, theirs = socket.socketpair()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        theirs.close()
        return Keeper(pid, ours)
    try:  # must never return into the parent's code
        _keep(cage, conversation, theirs)
    finally:
        os._exit(1)


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


def _keep(cage: Cage, conversation: socket.socket, line: socket.socket) -> None:
    os.setsid()
    sandbox.die_with_parent()
    sandbox.adopt_orphans()
    _close_all_but(conversation.fileno(), line.fileno())
    sockets = sandbox.open_sockets()
    states = sandbox.unshared()
    outside = os.open(cage.work, os.O_RDONLY | os.O_DIRECTORY)  # the folder itself, whatever will be mounted over it
    worker = os.fork()
    if worker == 0:
        line.close()
        os.close(outside)
        _work(cage, conversation, states, sockets)
        os._exit(0)
    conversation.close()
    alone = states["namespaces"] == sandbox.ON
    ended = os.pidfd_open(worker)
    spent: dict[int, float] = {}
    while not select.select([line, ended], [], [], LOOK_SECONDS)[0] and _within(
        cage, worker if alone else os.getpid(), outside, spent
    ):
        pass
    with suppress(ProcessLookupError):
        os.kill(worker, signal.SIGKILL)
    if alone:
        os.waitpid(worker, 0)  # process 1 of its namespace: its children end with it
    else:
        _end_children()
    if cage.result:
        _bring_out(cage, outside)
    os._exit(0)


def _within(cage: Cage, root: int, outside: int, spent: dict[int, float]) -> bool:
    """Whether what the worker has started is within the limits that the kernel sets for each process alone.

    spent: process -> seconds of CPU time when it was last seen; updated.
    """
    used = reaped = 0
    for pid in _family(root):
        try:
            counted = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            memory = re.findall(r"^Rss(?:Anon|Shmem):\s*(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
        except OSError:
            continue
        spent[pid] = sum(map(int, counted[11:13])) / TICKS
        reaped += sum(map(int, counted[13:15])) / TICKS
        used += 1024 * sum(map(int, memory))
    mounted = os.stat(cage.work).st_dev != os.fstat(outside).st_dev  # then the mount limits its size
    return (
        used <= cage.limits.memory
        and max(sum(spent.values()), reaped) <= cage.limits.cpu
        and (mounted or _bytes_in(cage.work) <= cage.limits.disk)
    )


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
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


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


def remove(folder: Path) -> None:
    """Remove a folder of any depth and with any modes; shutil.rmtree needs an open file for each level."""
    number = 0
    while names := os.listdir(folder):
        for name in names:
            path = folder / name
            if path.is_symlink() or not path.is_dir():
                path.unlink()
                continue
            path.chmod(0o700)
            for inner in os.listdir(path):
                if not (path / inner).is_symlink() and (path / inner).is_dir():
                    (path / inner).chmod(0o700)
                number += 1
                (path / inner).rename(folder / f"{number}.{os.getpid()}.gone")
            path.rmdir()
    folder.rmdir()


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


def _work(cage: Cage, conversation: socket.socket, states: dict[str, str], sockets: list[Path]) -> None:
    alone = states["namespaces"] == sandbox.ON
    states["mounts"] = (
        sandbox.mounts_of_its_own(cage.work, cage.hidden, cage.readable, sockets, cage.limits)
        if alone
        else "no namespaces"
    )
    os.environ.clear()
    os.environ.update(ENVIRONMENT | cage.environment | dict.fromkeys(("HOME", "TMPDIR"), str(cage.work)))
    os.chdir(cage.work)
    sandbox.first_to_be_killed()
    writable = (Path("/dev/shm"),) if states["mounts"] == sandbox.ON else ()
    states |= sandbox.locked_in(cage.work, cage.readable, cage.limits, cage.user, writable)
    states["files"] = sandbox.files_of(states, cage.readable, cage.hidden)
    states["network"] = sandbox.network_of(states, sockets)
    sandbox.die_with_parent()  # the change of user has reset this
    if cage.command:
        os.execve(cage.command[0], cage.command, dict(os.environ))
    protocol.send(conversation, states)
    _serve(conversation)


def _serve(conversation: socket.socket) -> None:
    namespace: dict = {"__name__": "__main__", "get_ipython": _Shell}
    given: dict = {}  # names that the lab's own cells define, with their values
    while True:
        try:
            request = protocol.receive(conversation)
        except protocol.Broken:
            return
        if "cells" in request:
            _seed(request["number"])
            for name, source in request["cells"]:
                protocol.send(conversation, {"begun": name})
                protocol.send(conversation, {"ended": name, **_answer(_run, name, source, namespace)})
                given |= {kept: namespace[kept] for kept in request["given"].get(name, ()) if kept in namespace}
            protocol.send(conversation, {"number": request["number"]})
        else:
            _seed(request["number"])
            answer = _answer(evaluate, request["code"], request["inputs"], {**namespace, **given})
            try:
                protocol.send(conversation, {"number": request["number"], **answer})
            except ValueError as error:
                protocol.send(conversation, {"number": request["number"], "raised": described(error)})


def _run(name: str, source: str, namespace: dict) -> None:
    exec(compile(source, f"<{name}>", "exec"), namespace)


def _answer(work: Callable, *arguments) -> dict:
    """{"value": its result} or {"raised": its exception, in plain values}."""
    try:
        return {"value": work(*arguments)}
    except BaseException as error:  # also SystemExit: there is no notebook to leave
        try:
            kinds, text = described(error)
        except BaseException:
            kinds, text = ("RuntimeError",), "an exception that cannot say what it is"
        return {"raised": (kinds[:10], str(text)[:LONGEST_TEXT])}


class _Shell:
    """A get_ipython() for magics and shell lines; every method says that there is no shell here."""

    def __getattr__(self, name: str):
        raise RuntimeError(f"there is no IPython where notebooks are graded: {name} does nothing here")


def _seed(seed: int) -> None:
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - the stream that students draw from
