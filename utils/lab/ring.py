"""Ranks in a ring, each linked to its right neighbour: threads of one process, or processes that talk over gloo.

Lab 14 builds its collectives on them. Both links have the same interface: `rank`, `world`, `send(tensor)` to the right,
`receive(like)` from the left, and `sent`, the number of values in each message so far. Between threads a mistake raises at
once, and always the same error. Between processes it would hang, or a rank would read the wrong message.
"""

import threading
from collections import deque
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor


class _Ring:
    """The state that the threads of a ring share: messages in transit, running ranks and waiting ranks."""

    def __init__(self, world: int):
        self.changed = threading.Condition()
        self.inboxes: list[deque[Tensor]] = [deque() for _ in range(world)]
        self.running = set(range(world))
        self.waiting: set[int] = set()

    def stuck(self) -> bool:
        """Whether every running rank waits for a message and none is in transit to it."""
        return all(rank in self.waiting and not self.inboxes[rank] for rank in self.running)


class ThreadLink:
    """The link of rank `rank` of `world` threads."""

    def __init__(self, ring: _Ring, rank: int, world: int):
        self.rank, self.world = rank, world
        self.sent: list[int] = []
        self._ring = ring

    def send(self, tensor: Tensor) -> None:
        """Send a copy of the tensor to rank + 1, or from the last rank to rank 0. Does not wait."""
        with self._ring.changed:
            self._ring.inboxes[(self.rank + 1) % self.world].append(tensor.detach().clone())
            self.sent.append(tensor.numel())
            self._ring.changed.notify_all()

    def receive(self, like: Tensor) -> Tensor:
        """The next message from rank - 1, a new tensor. Waits for it.

        Raises ValueError if its shape and dtype are not those of `like`, and RuntimeError if all ranks wait.
        """
        with self._ring.changed:
            self._ring.waiting.add(self.rank)
            self._ring.changed.notify_all()
            while not self._ring.inboxes[self.rank]:
                if self._ring.stuck():
                    raise RuntimeError(
                        f"rank {self.rank} of {self.world} waits for a message that never comes: no rank is left that could "
                        "send one. Does each rank send before it receives, and receive only as often as its neighbour sends?"
                    )
                self._ring.changed.wait()
            self._ring.waiting.discard(self.rank)
            message = self._ring.inboxes[self.rank].popleft()
        if (message.shape, message.dtype) != (like.shape, like.dtype):
            raise ValueError(
                f"rank {self.rank} of {self.world} expects {_kind(like)}, and the message is {_kind(message)}: do sender "
                "and receiver mean the same message?"
            )
        return message


def on_threads(world: int, function: Callable) -> list:
    """Run function(link) on `world` threads of this process, each with its own ThreadLink; returns the results by rank.

    When all threads have ended, raises the exception of the lowest failed rank, or RuntimeError if messages are unread.
    Backward runs in the thread that calls it, on a GPU too: otherwise all ranks would share one backward thread, and a
    rank that waits in it would block the others.
    """
    ring = _Ring(world)
    links = [ThreadLink(ring, rank, world) for rank in range(world)]
    results, errors = [None] * world, {}

    def run(rank: int) -> None:
        try:
            torch.set_num_threads(1)
            with torch.autograd.set_multithreading_enabled(False):
                results[rank] = function(links[rank])
        except BaseException as error:
            errors[rank] = error
        finally:
            with ring.changed:
                ring.running.discard(rank)
                ring.changed.notify_all()

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # A rank that was waiting when another failed is not the cause.
    failed = [rank for rank in sorted(errors) if rank not in ring.waiting] or sorted(errors)
    if failed:
        raise errors[failed[0]]
    unread = {rank: len(inbox) for rank, inbox in enumerate(ring.inboxes) if inbox}
    if unread:
        raise RuntimeError(
            f"messages left unread, by rank: {unread}. The next receive would read them by mistake: does each rank "
            "send only what its neighbour receives?"
        )
    return results


class GlooLink:
    """The link of this process in its process group. Tensors are sent through host memory, whatever their device."""

    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.sent: list[int] = []
        self._in_transit: list[tuple[dist.Work, Tensor]] = []

    def send(self, tensor: Tensor) -> None:
        """Send a copy of the tensor to rank + 1, or from the last rank to rank 0. Does not wait."""
        self.sent.append(tensor.numel())
        if tensor.numel():  # gloo cannot send an empty message; the receiver knows its size from `like`
            copy = tensor.detach().cpu().clone()
            self._in_transit.append((dist.isend(copy, (self.rank + 1) % self.world), copy))

    def receive(self, like: Tensor) -> Tensor:
        """The next message from rank - 1, a new tensor of the shape and dtype of `like`, on its device. Waits for it."""
        received = torch.empty(like.shape, dtype=like.dtype)
        if like.numel():
            dist.recv(received, (self.rank - 1) % self.world)
        return received.to(like.device)

    def finish(self) -> None:
        """Wait until every message has been sent."""
        for work, _ in self._in_transit:
            work.wait()
        self._in_transit.clear()


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
