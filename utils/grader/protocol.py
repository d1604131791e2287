"""Values over a socket, between the judge and a worker: each a message that utils.lab.plain_values writes."""

import socket
from collections.abc import Callable

from utils.grader import framing
from utils.grader.framing import Broken, after, never
from utils.lab import plain_values

__all__ = ["Broken", "after", "receive", "send"]
LARGEST = 32 << 20  # bytes of one message; a list in it takes 30 times as much memory


def send(sock: socket.socket, value, seconds: float | None = None) -> None:
    """Send a value. Broken if the other side does not read it in time, or has gone."""
    framing.send(sock, plain_values.dump(value), seconds)


def receive(sock: socket.socket, late: Callable[[], bool] = never):
    """The next value. Broken if it is not complete before it is `late`, or not in the form that plain_values writes."""
    try:
        return plain_values.load(framing.receive(sock, late, LARGEST))
    except ValueError as error:
        raise Broken(str(error)) from error
