"""A Python that has imported torch before it starts: each program in it begins three CPU seconds sooner.

`forking(environment)` starts the server, which imports torch once and for all, and yields its address. `python(address)`
begins a command line as `[sys.executable, "-P"]` does. What it starts asks the server for a fork, which runs the program,
and stays as the process that the caller interrupts, kills and waits for. The server imports and never computes, so that
a fork of it is safe: a notebook's kernel, with its threads, is not.
"""

import atexit
import gc
import importlib
import json
import os
import random
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType

TORCH = ("torch", "torch._dynamo")  # the first optimizer that is made imports torch._dynamo


def possible(device: str) -> bool:
    """Whether kernels are forked that compute on `device`, a type such as "cpu": what they import may look for a GPU."""
    return sys.platform == "linux" and device == "cpu"


@contextmanager
def forking(
    environment: dict[str, str], modules: tuple[str, ...] = (), start: tuple[str, ...] = (sys.executable, "-P")
) -> Iterator[str]:
    """Yields the address of a server that has imported torch and `modules`; it runs meanwhile.

    `environment`: the variables under which it imports them; a program gets those of the process that starts it.
    `start` begins the server's own command line. Raises RuntimeError if it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="forking") as folder:
        address = str(Path(folder, "socket"))
        # -P: the folder of this file is no place to import from
        command = [*start, __file__, "serve", address, *TORCH, *modules]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        # A Ctrl-C is not for the server: it ends when this process closes its stdin, or has ended.
        with subprocess.Popen(command, env=environment, start_new_session=True, **pipes) as server:
            if not server.stdout.readline():  # it says when it listens
                raise RuntimeError(f"the process that is forked did not start (exit status {server.wait()})")
            yield address


def python(address: str) -> list[str]:
    """The beginning of a command line: a file follows, and its arguments."""
    return [sys.executable, "-P", "-S", __file__, "run", address]


# ---- in the process that the caller starts --------------------------------------------------------------------------


def ask(address: str, *arguments: str) -> int:
    """Has a program forked, a file with its arguments; hands on signals to it, and returns its exit status."""
    caller = os.getppid()
    handed_on = (signal.SIGINT, signal.SIGTERM)
    signal.pthread_sigmask(signal.SIG_BLOCK, handed_on)  # until there is a program to hand them on to
    request = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [json.dumps(request).encode() + b"\n"], [0, 1, 2])
        with server.makefile() as answers:
            program = int(answers.readline())
            for number in handed_on:
                signal.signal(number, lambda number, frame: os.kill(program, number))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, handed_on)
            while not select.select([server], [], [], 1.0)[0]:
                if os.getppid() != caller:
                    return 1
            return int(answers.readline() or 1)


# ---- in the server --------------------------------------------------------------------------------------------------


def serve(address: str, *modules: str) -> None:
    """Import the modules, then fork for each that asks. Only a program returns from here, when it has ended."""
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a program looks for no garbage in all that torch made
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("listening", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            asker, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                keep(asker)
                return
            asker.close()
    with suppress(OSError):  # of a caller that was killed, and cannot tidy up
        os.unlink(address)
        os.rmdir(os.path.dirname(address))


def keep(asker: socket.socket) -> None:
    """Fork the program; tell who asked its number and its exit status; kill it, with its children, if they go."""
    ended, wake = socket.socketpair()  # gets a byte when the program has ended
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    message, streams, _, _ = socket.recv_fds(asker, 1 << 16, 3)
    while not message.endswith(b"\n"):
        message += asker.recv(1 << 16)
    program = os.fork()
    if program == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for line in (asker, ended, wake):
            line.close()
        become(streams, **json.loads(message))
        return
    for stream in streams:
        os.close(stream)
    asker.sendall(f"{program}\n".encode())
    ready, _, _ = select.select([asker, ended], [], [])
    if ended not in ready:
        with suppress(ProcessLookupError):
            os.killpg(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    with suppress(OSError):
        asker.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become(streams: list[int], arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    """Run the program with what a new process has: its own group, streams, folder, variables, signals, random numbers."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    sys.argv = arguments
    try:
        runpy.run_path(arguments[0], run_name="__main__")
    except Exception as error:  # as Python shows it, without the frames of this module
        traceback.print_exception(error.with_traceback(_inside(arguments[0], error.__traceback__)))
        sys.exit(1)
    # It ended well. Python would now take apart all of torch's modules, for 0.3 s; the system does it at once.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _inside(file: str, frames: TracebackType | None) -> TracebackType | None:
    """The traceback from the first frame in `file` on."""
    first = frames
    while first and first.tb_frame.f_code.co_filename != file:
        first = first.tb_next
    return first or frames


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        status = ask(*sys.argv[2:])
        if status < 0:  # as the program ended
            if -status != signal.SIGKILL:
                signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        sys.exit(status)
