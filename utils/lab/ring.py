"""Ranks in a ring, each with a line to its right neighbour: as threads of one process, or as processes over gloo.

Both kinds of line are used alike: `rank`, `world`, `send(tensor)` to the right, `receive(like)` from the left, and `sent`,
the number of values in each message so far. What is not right is an error between threads, at once and always the same one;
between processes it would hang, or take the wrong message for the right one.
"""

import threading
from collections import deque
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor


class _Ring:
    """What the threads of a ring share: the messages under way, who still runs, and who waits."""

    def __init__(self, world: int):
        self.changed = threading.Condition()
        self.inboxes: list[deque[Tensor]] = [deque() for _ in range(world)]
        self.running = set(range(world))
        self.waiting: set[int] = set()

    def stuck(self) -> bool:
        """Whether everybody who still runs waits for a message, and none is under way to them."""
        return all(rank in self.waiting and not self.inboxes[rank] for rank in self.running)


class ThreadLink:
    """The line of rank `rank` of `world` threads."""

    def __init__(self, ring: _Ring, rank: int, world: int):
        self.rank, self.world = rank, world
        self.sent: list[int] = []
        self._ring = ring

    def send(self, tensor: Tensor) -> None:
        """A copy of the tensor is on its way to rank + 1, the last rank's to rank 0. Does not wait."""
        with self._ring.changed:
            self._ring.inboxes[(self.rank + 1) % self.world].append(tensor.detach().clone())
            self.sent.append(tensor.numel())
            self._ring.changed.notify_all()

    def receive(self, like: Tensor) -> Tensor:
        """The next message of rank - 1, a new tensor. Waits for it.

        Raises ValueError if its shape and dtype are not those of `like`, RuntimeError if all ranks wait, so that it never
        comes.
        """
        with self._ring.changed:
            self._ring.waiting.add(self.rank)
            self._ring.changed.notify_all()
            while not self._ring.inboxes[self.rank]:
                if self._ring.stuck():
                    raise RuntimeError(
                        f"rank {self.rank} of {self.world} waits for a message that never comes: no rank is left that could "
                        "send one. Does each rank send before it receives, and receive only what is sent to it?"
                    )
                self._ring.changed.wait()
            self._ring.waiting.discard(self.rank)
            message = self._ring.inboxes[self.rank].popleft()
        if (message.shape, message.dtype) != (like.shape, like.dtype):
            raise ValueError(
                f"rank {self.rank} of {self.world} expects {_kind(like)}, and the message is {_kind(message)}: sender and "
                "receiver do not speak of the same one"
            )
        return message


def on_threads(world: int, function: Callable) -> list:
    """function(link) on `world` threads of this process at once, each with its own ThreadLink; the results, by rank.

    Raises what the first of the ranks raised, once all have ended; RuntimeError if messages are left unread. Backward runs
    in the thread that calls it, on a GPU too: there all would share one otherwise, and one that waits hold up the rest.
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
    # One that could not go on because another had failed is not to blame.
    blamed = [rank for rank in sorted(errors) if rank not in ring.waiting] or sorted(errors)
    if blamed:
        raise errors[blamed[0]]
    unread = {rank: len(inbox) for rank, inbox in enumerate(ring.inboxes) if inbox}
    if unread:
        raise RuntimeError(
            f"messages left unread, by rank: {unread}. The next to receive would take them for its own: does each rank "
            "send only what its neighbour receives?"
        )
    return results


class GlooLink:
    """The line of this process in its process group. Tensors travel over the host's memory, wherever they live."""

    def __init__(self):
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.sent: list[int] = []
        self._under_way: list[tuple[dist.Work, Tensor]] = []

    def send(self, tensor: Tensor) -> None:
        """A copy of the tensor is on its way to rank + 1, the last rank's to rank 0. Does not wait."""
        self.sent.append(tensor.numel())
        if tensor.numel():  # gloo takes no empty message, and who receives knows that it is one
            copy = tensor.detach().cpu().clone()
            self._under_way.append((dist.isend(copy, (self.rank + 1) % self.world), copy))

    def receive(self, like: Tensor) -> Tensor:
        """The next message of rank - 1, a new tensor of the shape and dtype of `like`, on its device. Waits for it."""
        received = torch.empty(like.shape, dtype=like.dtype)
        if like.numel():
            dist.recv(received, (self.rank - 1) % self.world)
        return received.to(like.device)

    def finish(self) -> None:
        """Wait until all that was sent has left."""
        for work, _ in self._under_way:
            work.wait()
        self._under_way.clear()


def _kind(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
