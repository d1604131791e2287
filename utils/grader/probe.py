"""Tries, as a submission could, to reach what it must not: the proof of what the sandbox says of itself.

The trusted side sets up a file, sockets and a process (`canaries`); `reachable_by_layer` is called in a sandboxed worker.
"""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

SLEEPS = 3600


@contextlib.contextmanager
def canaries() -> Iterator[dict]:
    """Arguments for `reachable_by_layer`: a file that any user may read and change, servers that any may call, and a
    process of this user's. They are gone afterwards.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="course-canary-")))
        folder.chmod(0o755)
        file = folder / "file"
        file.write_text("canary")
        file.chmod(0o666)
        addresses = [str(folder / "socket"), f"\0course-canary-{os.getpid()}"]
        for address in addresses:
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        os.chmod(addresses[0], 0o777)
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        waits = [sys.executable, "-S", "-c", "import sys; sys.stdin.read()"]  # ends with this process too
        other = stack.enter_context(subprocess.Popen(waits, stdin=subprocess.PIPE, start_new_session=True))
        yield {"file": str(file), "sockets": addresses, "port": tcp.getsockname()[1], "pid": other.pid}


def reachable_by_layer(file: str, sockets: list[str], port: int, pid: int) -> dict[str, str]:
    """layer -> what could be done, "" for nothing. It also starts a process that tries to outlive this one."""
    done = {
        "files": [
            what_if_done(f"a file of others was {what}", attempt)
            for what, attempt in {
                "read": lambda: Path(file).read_text(),
                "written to": lambda: Path(file).write_text("x"),
                "listed": lambda: os.listdir(os.path.dirname(file)),
            }.items()
        ],
        "network": [
            *(what_if_done(f"a server at {address!r} answered", lambda a=address: _call(a)) for address in sockets),
            what_if_done("TCP reached this machine", lambda: socket.create_connection(("127.0.0.1", port), 5).close()),
        ],
        "signals": [what_if_done("a process of others could be signalled", lambda: os.kill(pid, 0))],
    }
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            subprocess.run(["sleep", str(SLEEPS)], close_fds=False)
        os._exit(0)
    return {layer: "; ".join(filter(None, found)) for layer, found in done.items()}


def _call(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(address)


def what_if_done(what: str, attempt) -> str:
    try:
        attempt()
    except OSError:
        return ""
    return what
