"""One process or many: join, shard, sum over ranks, leave.

torchrun starts n processes of one script and tells each by environment variables which of them it is: its rank. A process
that was told nothing is rank 0 of 1; everything here then does nothing, or returns what it was given.

What all ranks must do together (sum, gather, …) is a collective: each calls it, in the same order, or the others wait. A
rank that ends early is noticed by those that wait for it, and named: each rank gives a sign of life once a second.
"""

import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache

import torch
import torch.distributed as dist
from torch import Tensor

from utils.device import pick_device

JOIN_SECONDS = 30.0  # how long ranks wait for each other to come
WAIT_SECONDS = 600.0  # how long a rank waits in a collective for one that is alive
PULSE_SECONDS = 1.0  # between two signs of life
GONE_SECONDS = 5.0  # without any, while the rank that looks gives its own: that rank is gone
READ_SECONDS = 3.0  # how long rank 0, which failed, stays for the others to read why

VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")  # what torchrun sets
_blocks = itertools.count()  # in which this process was joined: a script may train more than once


class Ranks:
    """The processes of one run: how many (`world`), and which this one is (`rank`; on its own machine, `local`)."""

    def __init__(self, rank: int = 0, world: int = 1, local: int = 0):
        self.rank, self.world, self.local = rank, world, local

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes files and prints."""
        return self.rank == 0

    def pick_device(self, name: str) -> torch.device:
        """The device called `name`; of several ranks on one machine, each takes the GPU of its own number.

        Raises ValueError for a device that this machine does not have, and for one GPU asked of several ranks.
        """
        device = pick_device(name)
        if self.world == 1 or device.type != "cuda":
            return device
        if device.index is not None:
            raise ValueError(f"device is {name!r}, and {self.world} ranks would share it: say cuda, each takes its own")
        device = pick_device(f"cuda:{self.local}")
        torch.cuda.set_device(device)  # where nccl works
        return device

    def sum(self, tensor: Tensor) -> Tensor:
        """A tensor's sum over all ranks, a new tensor; in one process the tensor itself."""
        if self.world == 1:
            return tensor
        total = tensor.clone()
        dist.all_reduce(total)
        return total

    def any(self, flag: bool) -> bool:
        """Whether the flag is up on some rank. It goes over the host's network: a GPU is not waited for."""
        return flag if self.world == 1 else bool(self.sum(torch.tensor(int(flag))))

    def gather(self, value: object) -> list:
        """The value of each rank, by rank. Anything that pickles: it comes from processes of this run, not from outside."""
        if self.world == 1:
            return [value]
        values = [None] * self.world
        dist.all_gather_object(values, value)
        return values

    def of_first(self, value: object) -> object:
        """Rank 0's value, on every rank."""
        if self.world == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def copy_from_first(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite each tensor by rank 0's."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor.detach(), src=0)

    def require_same(self, what: str, facts: dict[str, object]) -> None:
        """Raises ValueError on every rank, naming the first difference, unless all ranks hold the same facts."""
        everybodys = self.gather({name: str(fact) for name, fact in facts.items()})
        for rank, theirs in enumerate(everybodys):
            for name in {**everybodys[0], **theirs}:
                ours, other = (held.get(name, "nothing") for held in (everybodys[0], theirs))
                if ours != other:
                    raise ValueError(
                        f"{what} differs between ranks: {name} is {ours} on rank 0 and {other} on rank {rank}. Start "
                        "every rank with the same script and arguments, and build the same model on each"
                    )


ALONE = Ranks()


def started(environment: Mapping[str, str] = os.environ) -> Ranks:
    """This process's place among those that torchrun started. Reads the environment, opens nothing.

    Raises ValueError if the variables are incomplete or contradict each other.
    """
    given = {name: environment[name] for name in VARIABLES if environment.get(name)}
    shown = ", ".join(f"{name} is {value}" for name, value in given.items())
    if not {"RANK", "WORLD_SIZE"} & given.keys() or (given.get("WORLD_SIZE"), given.get("RANK", "0")) == ("1", "0"):
        return ALONE
    if missing := [name for name in VARIABLES if name not in given]:
        raise ValueError(
            f"{shown}, but {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not set: start n processes by "
            "torchrun --standalone --nproc-per-node=n, or unset them all for one process"
        )
    numbers = {name: _whole_number(name, given[name]) for name in VARIABLES if name != "MASTER_ADDR"}
    rank, world, local, port = numbers.values()
    on_machine = _whole_number("LOCAL_WORLD_SIZE", environment.get("LOCAL_WORLD_SIZE", str(world)))
    if not (0 <= rank < world and 0 <= local <= rank and local < on_machine <= world and 0 < port < 2**16):
        raise ValueError(
            f"{shown}, LOCAL_WORLD_SIZE is {on_machine}: ranks count from 0 to WORLD_SIZE - 1, those of one machine from 0 "
            "to LOCAL_WORLD_SIZE - 1, and a port is below 65536. Let torchrun set them, or unset them all for one process"
        )
    return Ranks(rank, world, local)


def _whole_number(name: str, value: str) -> int:
    if not value.isdecimal():
        raise ValueError(f"{name} is {value!r}: it must be a whole number; torchrun sets it")
    return int(value)


@contextmanager
def joined(ranks: Ranks):
    """Within the block the ranks reach each other: by gloo between CPUs, by nccl between GPUs.

    Raises ValueError if they contradict each other; RuntimeError, naming the rank, if one does not come within
    JOIN_SECONDS, or is lost within the block: GONE_SECONDS after its end, or WAIT_SECONDS if it lives on and hangs.
    """
    if ranks.world == 1:
        yield
        return
    store = _join(ranks.rank, ranks.world, os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    with _Pulse(ranks, dist.PrefixStore(f"block {next(_blocks)}", store)) as pulse:
        try:
            yield
            ranks.any(False)  # rank 0 may hold the store: it leaves when all are done
        except BaseException as error:
            lost = _is_lost_connection(error)
            pulse.say_why("" if lost else f"{type(error).__name__}: {error}")  # "": not this rank's fault
            gone = pulse.gone() if lost else {}
            pulse.leave(gone)
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


class _Pulse:
    """A thread that notes in the store, once a second, that this process lives, so that others can tell who does not."""

    def __init__(self, ranks: Ranks, store: dist.Store):
        self.ranks, self.stopped = ranks, threading.Event()
        self.store = store.clone()  # a connection of its own: whoever waits on one blocks it
        self.thread = threading.Thread(target=self._beat, daemon=True)
        self.beats = 0
        self.said_by_first: str | None = None  # rank 0 may take the store with it

    def __enter__(self) -> "_Pulse":
        self.thread.start()
        return self

    def __exit__(self, *error) -> None:
        self.stopped.set()
        self.thread.join(PULSE_SECONDS)

    def _beat(self) -> None:
        with suppress(RuntimeError):  # the store has gone, and with it whoever could read this
            while True:
                self.store.set(f"pulse {self.ranks.rank}", str(self.beats))
                self.said_by_first = self._read("end 0")
                self.beats += 1
                if self.stopped.wait(PULSE_SECONDS):
                    return

    def _wait(self, seconds: float, over: Callable[[], bool] = lambda: False) -> None:
        """Wait until it is `over`, or for so many seconds by this rank's own pulse: where a machine is too busy for that,
        it may be too busy for the others'."""
        last = self.beats + seconds / PULSE_SECONDS
        while self.beats < last and self.thread.is_alive() and not over():
            time.sleep(PULSE_SECONDS / 20)

    def say_why(self, reason: str) -> None:
        """Leave word for the others why this rank ends; "" if it only could not go on without them."""
        with suppress(RuntimeError):
            self.store.set(f"end {self.ranks.rank}", reason)

    def gone(self) -> dict[int, str]:
        """A sentence for each rank that ended with an error of its own, or else that gives no sign of life."""
        others = [rank for rank in range(self.ranks.world) if rank != self.ranks.rank]
        try:
            if errors := self._errors(others):
                return errors
            before = {rank: self._read(f"pulse {rank}") for rank in others}
            self._wait(GONE_SECONDS)
            silent = [r for r in others if self._read(f"pulse {r}") == before[r] and self._read(f"end {r}") is None]
            told = f"is gone (killed?), {GONE_SECONDS:.0f} s without a sign of life"
            return self._errors(others) or {rank: f"rank {rank} {told}" for rank in silent}
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
                self._wait(2 * GONE_SECONDS if gone else READ_SECONDS, lambda: self.store.check(awaited))

    def _read(self, key: str) -> str | None:
        return self.store.get(key).decode() if self.store.check([key]) else None
