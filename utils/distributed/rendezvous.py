"""How ranks meet, and how a rank that is lost is named: each writes a heartbeat to the store that they meet at."""

import itertools
import os
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache

import torch
import torch.distributed as dist

from utils.distributed.ranks import Ranks

JOIN_SECONDS = 30.0  # how long ranks wait for each other at the start
WAIT_SECONDS = 600.0  # how long a rank waits in a collective for one that is alive
HEARTBEAT_SECONDS = 1.0  # between two heartbeats
LOST_SECONDS = 5.0  # without a heartbeat, while the rank that looks writes its own: that rank is lost
READ_SECONDS = 3.0  # how long rank 0, which failed, stays for the others to read why

_blocks = itertools.count()  # in which this process was joined: a script may train more than once


@contextmanager
def joined(ranks: Ranks):
    """Within the block the ranks reach each other: by gloo between CPUs, by nccl between GPUs.

    Raises ValueError if they contradict each other; RuntimeError, naming the rank, if one does not come within
    JOIN_SECONDS, or is lost within the block: LOST_SECONDS after its end, or WAIT_SECONDS if it lives on and hangs.
    """
    if ranks.world == 1:
        yield
        return
    store = _join(ranks.rank, ranks.world, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    with _Heartbeat(ranks, dist.PrefixStore(f"block {next(_blocks)}", store)) as heartbeat:
        try:
            yield
            ranks.any(False)  # rank 0 may hold the store: it leaves when all are done
        except BaseException as error:
            lost = _is_lost_connection(error)
            heartbeat.say_why("" if lost else f"{type(error).__name__}: {error}")  # "": not this rank's fault
            gone = heartbeat.lost() if lost else {}
            heartbeat.leave(gone)
            if not gone:
                raise
            raise RuntimeError(
                f"{' and '.join(gone.values())}. This is rank {ranks.rank}, which cannot go on alone: start all ranks "
                "again: a run with a folder goes on from its newest checkpoint (torchrun --max-restarts does it by itself)"
            ) from error


def _is_lost_connection(error: BaseException) -> bool:
    """Whether a collective failed. gloo raises plain RuntimeErrors that name its source files."""
    return isinstance(error, dist.DistError) or "/gloo/" in str(error)


@lru_cache(maxsize=1)
def _join(rank: int, world: int, host: str, port: int) -> dist.Store:
    """Make the group of all ranks, and return the store that they met at. Both are kept to the end of the process.

    A group must not be destroyed earlier: gloo's destructor waits for its threads while it holds Python's lock, and a
    thread that frees a tensor waits for that lock.
    """
    store = _meet(rank, world, host, port)
    if not dist.is_initialized():
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if torch.cuda.is_available() and dist.is_nccl_available() else "gloo",
            store=dist.PrefixStore("group", store),
            rank=rank,
            world_size=world,
            timeout=timedelta(seconds=WAIT_SECONDS),
        )
    return store


def _meet(rank: int, world: int, host: str, port: int) -> dist.Store:
    """The store that all ranks write to and read from, once all of them have come.

    torchrun holds it, also when it starts the ranks again; where something else has set the variables, rank 0 does.
    """
    patience = timedelta(seconds=JOIN_SECONDS)
    holds = _holds_store(rank)
    where = f"{host}:{port} (MASTER_ADDR, MASTER_PORT)"
    try:
        store = _within(JOIN_SECONDS, lambda: dist.TCPStore(host, port, world, holds, patience, wait_for_workers=False))
        store.set_timeout(patience)
        store = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
        twice = store.add(f"rank {rank}", 1) > 1
        store.set(f"world {rank}", "twice" if twice else str(world))
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        advice = (
            "is the port in use by another program? Choose a free MASTER_PORT, the same for all ranks"
            if holds
            else "is rank 0 running, and is it rank 0 that listens there? Look at its output, or choose another MASTER_PORT"
        )
        raise RuntimeError(f"rank {rank} cannot meet the others at {where}: {advice}. ({reason})") from error
    try:
        _check_in(rank, world, store)
    except dist.DistError as error:  # the store has gone
        raise RuntimeError(
            f"rank {rank} cannot meet the others at {where}: rank 0, which listened there, has given up; look at its output"
        ) from error
    return store


def _holds_store(rank: int) -> bool:
    return rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"


def _within(seconds: float, make: Callable[[], dist.Store]) -> dist.Store:
    """What `make` returns, or a RuntimeError after `seconds`: to a program that listens and says nothing, torch's store
    waits without end."""
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
        raise RuntimeError(f"nobody answers within {seconds:.0f} s")
    return made[0]


def _check_in(own: int, world: int, store: dist.Store) -> None:
    """Wait until every rank has come, and compare what they were told."""
    deadline = time.monotonic() + JOIN_SECONDS
    for rank in range(world):
        key = f"world {rank}"
        while not store.check([key]) and time.monotonic() < deadline:
            time.sleep(0.05)
        if not store.check([key]):
            raise RuntimeError(
                f"rank {rank} of {world} did not come within {JOIN_SECONDS:.0f} s (this is rank {own}): look at its "
                "output, it may have failed on the way"
            )
        told = store.get(key).decode()
        if told == "twice":
            raise ValueError(f"RANK is {rank} on two processes: each needs a number of its own; torchrun sets it")
        if told != str(world):
            raise ValueError(f"WORLD_SIZE is {world} on rank {own} and {told} on rank {rank}: set one value")


class _Heartbeat:
    """A thread that writes a heartbeat to the store every second, so that the others can name a dead rank."""

    def __init__(self, ranks: Ranks, store: dist.Store):
        self.ranks, self.stopped = ranks, threading.Event()
        self.store = store.clone()  # a connection of its own: whoever waits on one blocks it
        self.thread = threading.Thread(target=self._beat, daemon=True)
        self.beats = 0
        self.said_by_first: str | None = None  # rank 0 may take the store with it

    def __enter__(self) -> "_Heartbeat":
        self.thread.start()
        return self

    def __exit__(self, *error) -> None:
        self.stopped.set()
        self.thread.join(HEARTBEAT_SECONDS)

    def _beat(self) -> None:
        with suppress(RuntimeError):  # the store has gone, and with it whoever could read this
            while True:
                self.store.set(f"heartbeat {self.ranks.rank}", str(self.beats))
                self.said_by_first = self._read("end 0")
                self.beats += 1
                if self.stopped.wait(HEARTBEAT_SECONDS):
                    return

    def _wait(self, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        """Wait until it is `over`, or for as many of this rank's own heartbeats as fit into `seconds`: a machine that is too
        busy to write these may be too busy for the other ranks' as well."""
        last = self.beats + seconds / HEARTBEAT_SECONDS
        while self.beats < last and self.thread.is_alive() and not over():
            time.sleep(HEARTBEAT_SECONDS / 20)

    def say_why(self, reason: str) -> None:
        """Leave word for the others why this rank ends; "" if it only could not go on without them."""
        with suppress(RuntimeError):
            self.store.set(f"end {self.ranks.rank}", reason)

    def lost(self) -> dict[int, str]:
        """A sentence for each rank that ended with an error of its own, or else that gives no sign of life."""
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
            why = self.said_by_first
            return {0: f"rank 0 stopped with {why}" if why else "rank 0, where the ranks meet, is gone (killed?)"}

    def _errors(self, others: list[int]) -> dict[int, str]:
        return {rank: f"rank {rank} stopped with {why}" for rank in others if (why := self._read(f"end {rank}"))}

    def leave(self, gone: dict[int, str]) -> None:
        """Note that this rank knows enough. The one that holds the store stays until all but those `gone` do."""
        with suppress(RuntimeError):
            self.store.set(f"left {self.ranks.rank}", "")
            if _holds_store(self.ranks.rank):
                awaited = [f"left {rank}" for rank in range(self.ranks.world) if rank not in gone]
                self._wait(2 * LOST_SECONDS if gone else READ_SECONDS, lambda: self.store.check(awaited))

    def _read(self, key: str) -> str | None:
        return self.store.get(key).decode() if self.store.check([key]) else None
