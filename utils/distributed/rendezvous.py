"""Rendezvous of the ranks, and detection of a lost rank: each writes a heartbeat to the store where they meet."""

import atexit
import itertools
import os
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

import torch
import torch.distributed as dist

from utils.distributed.ranks import Ranks

JOIN_SECONDS = 30.0  # how long ranks wait for each other at the start
WAIT_SECONDS = 600.0  # how long a rank waits in a collective for one that is alive
HEARTBEAT_SECONDS = 1.0  # between two heartbeats
LOST_SECONDS = 5.0  # without a heartbeat, while the observing rank writes its own: the other rank is lost
DRAIN_SECONDS = 60.0  # at the end of the program: the longest wait until gloo's threads have freed their last tensors
READ_SECONDS = 3.0  # how long a failed rank 0 keeps the store open, so that the others can read its error

_blocks = itertools.count()  # numbers the `connect` blocks of this process: a script may train more than once


@contextmanager
def connect(ranks: Ranks):
    """Within the block the ranks can communicate: by gloo between CPUs, by nccl between GPUs.

    Raises ValueError if their settings contradict each other; RuntimeError, naming the rank, if one does not arrive within
    JOIN_SECONDS, or is lost within the block: LOST_SECONDS after it died, or WAIT_SECONDS if it is alive but hangs.
    """
    if ranks.world == 1:
        yield
        return
    store = _join(ranks.rank, ranks.world, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    with _Heartbeat(ranks, dist.PrefixStore(f"block {next(_blocks)}", store)) as heartbeat:
        try:
            yield
            ranks.any(False)  # rank 0 may host the store: it must not leave before all are done
        except BaseException as error:
            lost = _is_lost_connection(error)
            heartbeat.say_why("" if lost else f"{type(error).__name__}: {error}")  # "": not this rank's fault
            lost_ranks = heartbeat.lost() if lost else {}
            heartbeat.leave(lost_ranks)
            if not lost_ranks:
                raise
            raise RuntimeError(
                f"{' and '.join(lost_ranks.values())}. This is rank {ranks.rank}, which cannot continue alone: start all "
                "ranks again: a run with a folder resumes from its newest checkpoint (torchrun --max-restarts does this)"
            ) from error


def _is_lost_connection(error: BaseException) -> bool:
    """Whether a collective failed. gloo raises plain RuntimeErrors that name its source files."""
    return isinstance(error, dist.DistError) or "/gloo/" in str(error)


@lru_cache(maxsize=1)
def _join(rank: int, world: int, host: str, port: int) -> dist.Store:
    """Make the group of all ranks, and return the store where they met. Both are kept to the end of the process.

    A group must not be destroyed earlier: gloo's destructor waits for its threads while it holds the GIL, and a thread
    that frees a tensor waits for the GIL.
    """
    store = _meet(rank, world, host, port)
    atexit.register(_drain)
    if not dist.is_initialized():
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo",
            store=dist.PrefixStore("group", store),
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=WAIT_SECONDS),
        )
    return store


def _drain() -> None:
    """Wait until gloo's threads have nothing to do; the interpreter ends after this.

    A collective is over for its caller before gloo's thread has let go of the tensors. To free one it needs the GIL, and a
    thread that asks for the GIL while the interpreter ends is ended too: in the middle of a C++ destructor, which aborts
    the process ("terminate called without an active exception", github.com/pytorch/pytorch/issues/190489).
    """
    deadline = time.monotonic() + DRAIN_SECONDS
    before = None
    while time.monotonic() < deadline:
        time.sleep(0.05)  # without the GIL
        now = _gloo_threads()
        if now == before and not any("(running)" in thread for thread in now):
            return
        before = now


def _gloo_threads() -> list[str]:
    """Of each of gloo's threads: whether it runs or waits for a CPU, and how often it has begun or ceased to run.

    Empty on a system without Linux's /proc.
    """
    found = []
    for task in Path("/proc/self/task").glob("*"):
        with suppress(OSError):  # it has ended meanwhile
            lines = (task / "status").read_text().splitlines()
            if lines[0].endswith("pt_gloo_runloop"):
                found.append("\n".join(line for line in lines if line.startswith(("State:", "Pid:")) or "ctxt" in line))
    return found


def _meet(rank: int, world: int, host: str, port: int) -> dist.Store:
    """The store that all ranks write to and read from, once all of them have arrived.

    torchrun hosts it, also when it restarts the ranks; if something else has set the variables, rank 0 does.
    """
    timeout = timedelta(seconds=JOIN_SECONDS)
    is_host = _hosts_store(rank)
    where = f"{host}:{port} (MASTER_ADDR, MASTER_PORT)"
    try:
        store = _within(
            JOIN_SECONDS, lambda: dist.TCPStore(host, port, world, is_host, timeout, wait_for_workers=False)
        )
        store.set_timeout(timeout)
        store = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        twice = store.add(f"rank {rank}", 1) > 1
        store.set(f"world {rank}", "twice" if twice else str(world))
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        advice = (
            "is the port in use by another program? Choose a free MASTER_PORT, the same for all ranks"
            if is_host
            else "is rank 0 running, and is it rank 0 that listens there? Look at its output, or choose another MASTER_PORT"
        )
        raise RuntimeError(f"rank {rank} cannot meet the others at {where}: {advice}. ({reason})") from error
    try:
        _check_in(rank, world, store)
    except dist.DistError as error:  # the store has closed
        raise RuntimeError(
            f"rank {rank} cannot meet the others at {where}: rank 0, which listened there, has given up; look at its output"
        ) from error
    return store


def _hosts_store(rank: int) -> bool:
    return rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"


def _within(seconds: float, make: Callable[[], dist.Store]) -> dist.Store:
    """The result of `make`, or a RuntimeError after `seconds`: torch's store waits forever for a program that accepts the
    connection and never answers."""
    made, errors = [], []

    def attempt() -> None:
        try:
            made.append(make())
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds + 1)
    if errors:
        raise errors[0]
    if not made:
        raise RuntimeError(f"no answer within {seconds:.0f} s")
    return made[0]


def _check_in(own_rank: int, world: int, store: dist.Store) -> None:
    """Wait until every rank has arrived, and compare their RANK and WORLD_SIZE."""
    deadline = time.monotonic() + JOIN_SECONDS
    for rank in range(world):
        key = f"world {rank}"
        while not store.check([key]) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not store.check([key]):
            raise RuntimeError(
                f"rank {rank} of {world} did not come within {JOIN_SECONDS:.0f} s (this is rank {own_rank}): look at its "
                "output, it may have failed on the way"
            )
        value = store.get(key).decode()
        if value == "twice":
            raise ValueError(f"RANK is {rank} on two processes: each needs a number of its own; torchrun sets it")
        if value != str(world):
            raise ValueError(f"WORLD_SIZE is {world} on rank {own_rank} and {value} on rank {rank}: set one value")


class _Heartbeat:
    """A thread that writes a heartbeat to the store every second, so that the others can name a dead rank."""

    def __init__(self, ranks: Ranks, store: dist.Store):
        self.ranks, self.stopped = ranks, threading.Event()
        self.store = store.clone()  # its own connection: a waiting call blocks a shared one
        self.thread = threading.Thread(target=self._beat, daemon=True)
        self.beats = 0
        self.error_of_first: str | None = None  # read early: the store may end with rank 0

    def __enter__(self) -> "_Heartbeat":
        self.thread.start()
        return self

    def __exit__(self, *error) -> None:
        self.stopped.set()
        self.thread.join(JOIN_SECONDS)  # it must not outlive the interpreter; a busy store may answer late

    def _beat(self) -> None:
        with suppress(RuntimeError):  # the store has closed: no rank can read this any more
            while True:
                self.store.set(f"heartbeat {self.ranks.rank}", str(self.beats))
                self.error_of_first = self._read("end 0")
                self.beats += 1
                if self.stopped.wait(HEARTBEAT_SECONDS):
                    return

    def _wait(self, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        """Wait until `over()`, or for as many of this rank's own heartbeats as fit into `seconds`.

        A machine that is too busy to write these may be too busy to write the other ranks' as well.
        """
        last = self.beats + seconds / HEARTBEAT_SECONDS
        while self.beats < last and self.thread.is_alive() and not over():
            time.sleep(HEARTBEAT_SECONDS / 20)

    def say_why(self, reason: str) -> None:
        """Tell the other ranks why this one ends; "" if the only reason is a lost connection to them."""
        with suppress(RuntimeError):
            self.store.set(f"end {self.ranks.rank}", reason)

    def lost(self) -> dict[int, str]:
        """A sentence for each rank that ended with an error of its own; if none did, for each rank without a heartbeat."""
        others = [rank for rank in range(self.ranks.world) if rank != self.ranks.rank]
        try:
            if errors := self._errors(others):
                return errors
            before = {rank: self._read(f"heartbeat {rank}") for rank in others}
            self._wait(LOST_SECONDS)
            silent = [r for r in others if self._read(f"heartbeat {r}") == before[r] and self._read(f"end {r}") is None]
            dead = f"is gone (killed?): no heartbeat for {LOST_SECONDS:.0f} s"
            return self._errors(others) or {rank: f"rank {rank} {dead}" for rank in silent}
        except RuntimeError:
            why = self.error_of_first
            return {0: f"rank 0 stopped with {why}" if why else "rank 0, where the ranks meet, is gone (killed?)"}

    def _errors(self, others: list[int]) -> dict[int, str]:
        return {rank: f"rank {rank} stopped with {why}" for rank in others if (why := self._read(f"end {rank}"))}

    def leave(self, lost_ranks: dict[int, str]) -> None:
        """Record that this rank has read everything. The host of the store waits until all but `lost_ranks` have."""
        with suppress(RuntimeError):
            self.store.set(f"left {self.ranks.rank}", "")
            if _hosts_store(self.ranks.rank):
                awaited = [f"left {rank}" for rank in range(self.ranks.world) if rank not in lost_ranks]
                self._wait(2 * LOST_SECONDS if lost_ranks else READ_SECONDS, lambda: self.store.check(awaited))

    def _read(self, key: str) -> str | None:
        return self.store.get(key).decode() if self.store.check([key]) else None
