"""Values over a socket: eight bytes for the length, then a message of utils.lab.plain_values."""

import socket
import struct
import time

from utils.lab import plain_values

LENGTH = struct.Struct(">Q")
LARGEST = 64 << 20  # bytes of one message
CHUNK = 1 << 16


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


def receive(sock: socket.socket, seconds: float | None = None):
    """The next value. Broken if it is not complete within `seconds`, or not in the form that plain_values writes."""
    until = None if seconds is None else time.monotonic() + seconds
    (size,) = LENGTH.unpack(_exactly(sock, LENGTH.size, until))
    if size > LARGEST:
        raise Broken(f"a message of {size:,} bytes; at most {LARGEST:,} are taken")
    try:
        return plain_values.load(bytes(_exactly(sock, size, until)))
    except ValueError as error:
        raise Broken(str(error)) from error


def _exactly(sock: socket.socket, count: int, until: float | None) -> bytearray:
    got = bytearray()
    while len(got) < count:
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            raise Broken("it took too long")
        sock.settimeout(left)
        try:
            part = sock.recv(min(CHUNK, count - len(got)))
        except TimeoutError as error:
            raise Broken("it took too long") from error
        except OSError as error:
            raise Broken(f"it is gone: {error}") from error
        if not part:
            raise Broken("it ended")
        got += part
    return got
