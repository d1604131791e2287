"""Kernels forked from a process that has imported torch once for all: each starts three CPU seconds sooner.

`forking(environment)` starts that process, the server, and yields variables. An engine that has them starts this file as its
kernel. It asks the server for a fork, and stays as the process that Jupyter interrupts, kills and waits for.

Linux only, and not where there is an accelerator, whose state no fork survives.
"""

import gc
import importlib
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

ADDRESS = "COURSE_KERNELS"  # the variable with the path of the server's socket
INLINE = "module://matplotlib_inline.backend_inline"  # where a kernel's figures go
# What nearly every notebook imports. The first optimizer that is made imports torch._dynamo.
IMPORTED_ONCE = ("torch", "torch._dynamo", "matplotlib.pyplot", "ipykernel.kernelapp")


def possible(device: str) -> bool:
    """Whether kernels may be forked where notebooks compute on `device`, a type such as "cpu"."""
    return sys.platform == "linux" and device == "cpu"


@contextmanager
def forking(environment: dict[str, str]) -> Iterator[dict[str, str]]:
    """Yields the variable that an engine needs to get its kernel from a server, which runs meanwhile.

    `environment`: the variables of the server, which imports torch under them; a kernel gets those of its engine.
    """
    with tempfile.TemporaryDirectory(prefix="kernels") as folder:
        address = str(Path(folder, "socket"))
        # -P: the folder of this file is no place to import from
        command = [sys.executable, "-P", __file__, "serve", address]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        # A Ctrl-C is not for the server: it ends when this process closes its stdin, or has ended.
        with subprocess.Popen(
            command, env={"MPLBACKEND": INLINE} | environment, start_new_session=True, **pipes
        ) as server:
            server.stdout.readline()  # it listens; or it has ended, and the engines say so
            yield {ADDRESS: address}


def command_for(address: str) -> list[str]:
    """The command of a kernel, as in kernel.json, that has it forked by the server at this address."""
    return [sys.executable, "-P", "-S", __file__, "kernel", address, "-f", "{connection_file}"]


# ---- in the process that Jupyter starts -----------------------------------------------------------------------------


def ask(address: str, *arguments: str) -> int:
    """Has a kernel forked with these arguments, hands on signals to it, and returns its exit status."""
    engine = os.getppid()
    request = {"arguments": arguments, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as server:
        server.connect(address)
        socket.send_fds(server, [json.dumps(request).encode() + b"\n"], [0, 1, 2])
        with server.makefile() as answers:
            kernel = int(answers.readline())
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda number, frame: os.kill(kernel, number))
            while not select.select([server], [], [], 1.0)[0]:
                if os.getppid() != engine:
                    return 1
            return int(answers.readline() or 1)


# ---- in the server --------------------------------------------------------------------------------------------------


def serve(address: str) -> None:
    """Import what all need, then fork for each that asks. Only a kernel returns from here, when it has ended."""
    for name in IMPORTED_ONCE:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a kernel looks for no garbage in all that torch made
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


def keep(asker: socket.socket) -> None:
    """Fork the kernel; tell who asked for it its number and its exit status; kill it, with its children, if they go."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    message, streams, _, _ = socket.recv_fds(asker, 1 << 16, 3)
    while not message.endswith(b"\n"):
        message += asker.recv(1 << 16)
    kernel = os.fork()
    if kernel == 0:
        asker.close()
        become_kernel(streams, **json.loads(message))
        return
    for stream in streams:
        os.close(stream)
    asker.sendall(f"{kernel}\n".encode())
    ended = os.pidfd_open(kernel)
    ready, _, _ = select.select([asker, ended], [], [])
    if ended not in ready:
        with suppress(ProcessLookupError):
            os.killpg(kernel, signal.SIGKILL)
    _, status = os.waitpid(kernel, 0)
    with suppress(OSError):
        asker.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become_kernel(streams: list[int], arguments: list[str], folder: str, environment: dict[str, str]) -> None:
    """What a new process would be: its own group, streams, folder, variables, signals and random numbers."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    random.seed()
    sys.argv = [
        "ipykernel_launcher",
        *arguments,
        f"--IPKernelApp.parent_handle={os.getppid()}",
    ]  # if that ends, so does it
    importlib.import_module("ipykernel.kernelapp").launch_new_instance()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        status = ask(*sys.argv[2:])
        if status < 0:  # as the kernel ended
            signal.signal(-status, signal.SIG_DFL)
            os.kill(os.getpid(), -status)
        sys.exit(status)
