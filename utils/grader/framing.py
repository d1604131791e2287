"""Messages over a socket: eight bytes for the length, then as many bytes."""

import select
import socket
import struct
import time
from collections.abc import Callable

LENGTH = struct.Struct(">Q")
CHUNK = 1 << 16
LOOK_SECONDS = 0.1  # between two looks at the clock


class Broken(Exception):
    """The message is invalid, too large or too late, or the other side has gone."""


def send(sock: socket.socket, message: bytes, seconds: float | None = None) -> None:
    """Send a message. Broken if the other side does not read it in time, or has gone."""
    sock.settimeout(seconds)
    try:
        sock.sendall(LENGTH.pack(len(message)) + message)
    except OSError as error:
        raise Broken(f"it takes no message: {error}") from error


def never() -> bool:
    return False


def after(seconds: float) -> Callable[[], bool]:
    """Whether so many seconds have gone by since now."""
    until = time.monotonic() + seconds
    return lambda: time.monotonic() > until


def receive(sock: socket.socket, late: Callable[[], bool] = never, largest: int | None = None) -> bytes:
    """The next message. Broken if it is not complete before it is `late`, or is longer than `largest` bytes."""
    (size,) = LENGTH.unpack(_exactly(sock, LENGTH.size, late))
    if largest is not None and size > largest:
        raise Broken(f"a message of {size:,} bytes; at most {largest:,} are taken")
    return _exactly(sock, size, late)


def _exactly(sock: socket.socket, count: int, late: Callable[[], bool]) -> bytes:
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
    return bytes(got)
