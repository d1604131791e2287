"""The fork server, seen from the trusted side, and the messages between the two: JSON, from process to trusted process."""

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict

from utils.course import ROOT
from utils.grader import framing
from utils.grader.sandbox import Cage

ENDING_SECONDS = 20  # for the processes of a submission to end
KNOWN = (  # environment variables that are kept: forked processes inherit the environment in memory
    "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV",
    "COURSE_DATA", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "MPLCONFIGDIR",
)  # fmt: skip


def send(line: socket.socket, value: dict) -> None:
    framing.send(line, json.dumps(value).encode())


def receive(line: socket.socket, late: Callable[[], bool] = framing.never) -> dict:
    return json.loads(framing.receive(line, late))


class ForkServer:
    """The fork server, seen from the trusted side: started at the first request, and again after `end`.

    Serves any number of threads; each submission has a process of its own there.
    """

    def __init__(self):
        self._process: subprocess.Popen | None = None
        self._lock = threading.Lock()

    def grade(self, job: dict, cage: Cage, seconds: float) -> dict:
        """The judge's answer about `job` (see grade.grade_one). framing.Broken if it does not finish."""
        with self._asked(cage, seconds) as line:
            send(line, job)
            return receive(line, framing.after(seconds + 5))

    def execute(self, cage: Cage, seconds: float) -> None:
        """Run the cage's command, to its end or for `seconds`."""
        with self._asked(cage, seconds):
            pass

    @contextmanager
    def _asked(self, cage: Cage, seconds: float) -> Iterator[socket.socket]:
        """A connection to the process that serves the request; at the end all processes of the submission have ended."""
        settings = {
            "work": str(cage.work),
            "readable": [str(path) for path in cage.readable],
            "hidden": [str(path) for path in cage.hidden],
            "limits": asdict(cage.limits),
            "user": cage.user,
            "environment": cage.environment,
            "command": list(cage.command),
            "result": cage.result,
            "seconds": seconds,
        }
        (line, line_there), (held, held_there) = socket.socketpair(), socket.socketpair()
        with line, held:
            with line_there, held_there, self._lock:
                if self._process is None or self._process.poll() is not None:
                    self._start()
                message = json.dumps(settings).encode()
                try:
                    socket.send_fds(self._control, [message], [line_there.fileno(), held_there.fileno()])
                except OSError as error:
                    raise framing.Broken(f"the process that starts others has gone: {error}") from error
            try:
                yield line
            finally:
                held.settimeout(seconds + 2 * ENDING_SECONDS)
                with suppress(OSError):
                    held.recv(1)  # nothing comes: the other end is closed when its process has ended

    def _start(self) -> None:
        self._control, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)  # a request is one message
        environment = {name: os.environ[name] for name in KNOWN if name in os.environ} | {"OMP_NUM_THREADS": "1"}
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "utils.grader.fork_server"],
                stdin=theirs,
                cwd=ROOT,  # modules are read by this path later too, in a root that has no other to them
                env=environment,
                start_new_session=True,  # Ctrl-C is for the process that gives the orders
            )

    def end(self) -> None:
        """Kill it, and with it all that it has started."""
        with self._lock:
            if self._process:
                self._control.close()
                self._process.kill()
                self._process.wait()
            self._process = None
