"""Values over a socket: eight bytes for the length, then a message of utils.lab.plain_values."""

import select
import socket
import struct
import time
from collections.abc import Callable

from utils.lab import plain_values

LENGTH = struct.Struct(">Q")
LARGEST = 32 << 20  # bytes of one message; a list in it takes 30 times as much memory
CHUNK = 1 << 16
LOOK_SECONDS = 0.1  # between two looks at the clock


class Broken(Exception):
    """The message is invalid, too large or too late, or the other side has gone."""


def send(sock: socket.socket, value, seconds: float | None = None) -> None:
    """Send a value. Broken if the other side does not read it in time, or has gone."""
    message = plain_values.dump(value)
    sock.settimeout(seconds)
    try:
        sock.sendall(LENGTH.pack(len(message)) + message)
    except OSError as error:
        raise Broken(f"it takes no message: {error}") from error


def after(seconds: float) -> Callable[[], bool]:
    """Whether so many seconds have gone by since now."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


def receive(sock: socket.socket, late: Callable[[], bool] = lambda: False):
    """The next value. Broken if it is not complete before it is `late`, or not in the form that plain_values writes."""
    (size,) = LENGTH.unpack(_exactly(sock, LENGTH.size, late))
    if size > LARGEST:
        raise Broken(f"a message of {size:,} bytes; at most {LARGEST:,} are taken")
    try:
        return plain_values.load(bytes(_exactly(sock, size, late)))
    except ValueError as error:
        raise Broken(str(error)) from error


def _exactly(sock: socket.socket, count: int, late: Callable[[], bool]) -> bytearray:
    got = bytearray()
    while len(got) < count:
        if late():
            raise Broken("it took too long")
        if not select.select([sock], [], [], LOOK_SECONDS)[0]:
            continue
        try:
            part = sock.recv(min(CHUNK, count - len(got)))
        except OSError as error:
            raise Broken(f"it is gone: {error}") from error
        if not part:
            raise Broken("it ended")
        got += part
    return got
