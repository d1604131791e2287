"""Ranks for a notebook: several real processes run a function of the notebook, and none outlives the call.

The function is written to a script, together with the functions, imports and constants that it uses, so that the reader
can see what the processes run. A server process that has already imported torch forks the ranks, in milliseconds, with
the environment variables that torchrun would set. It is safe to fork because it only imports and never computes; a
notebook's kernel, with its threads, is not.

    python utils/distributed/launch.py SOCKET    is that server; it ends with the process that started it.
"""

import ast
import atexit
import dis
import importlib
import inspect
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing.connection import arbitrary_address
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, TracebackType

import torch

PRELOADED = (
    "torch._dynamo",
    "utils.loop",
)  # imported by the server; DDP and the optimizers import torch._dynamo on first use
PYTHON = "COURSE_PYTHON"  # the variable that says how a Python begins that has imported torch already, a line a word
SCRIPT = "script.py"
TORCHRUN = Path(torch.__file__).with_name("distributed") / "run.py"
SECONDS = 60.0  # until ranks that still run are killed
GRACE_SECONDS = 3.0  # the same after one of them has failed
START_SECONDS = 300.0  # for the server to import what it preloads, on a busy machine
POLL_SECONDS = 0.01
PLAIN = (bool, int, float, str, tuple, list, dict, set, type(None), torch.dtype)

_HEAD = """\
from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
"""
_TAIL = """
if __name__ == "__main__":
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    arguments = torch.load(folder / "arguments.pt")
    {body}
"""
_IN_A_GROUP = """dist.init_process_group("gloo")
    torch.save({name}(*arguments), folder / f"{{dist.get_rank()}}.pt")
    dist.barrier()
    dist.destroy_process_group()"""
_ALONE = """import os
    torch.save({name}(*arguments), folder / f"{{os.environ['RANK']}}.pt")"""


@dataclass(frozen=True)
class Ended:
    """How a rank ended: its exit status (minus the signal's number if a signal killed it), its output, and the function's
    result (None if it did not return)."""

    code: int
    output: str
    result: object = None


def script_of(function: Callable, group: bool = True) -> str:
    """The text of a script that calls `function` and contains everything that it uses.

    group: whether the script makes a gloo process group before the call; otherwise the function does it if needed.
    Imported names are imported in the script, functions of the notebook are copied, constants are written out. Raises
    ValueError, with the name, for anything else: a class, a tensor, a model.
    """
    parts: dict[str, str] = {}
    _collect(function, parts)
    body = (_IN_A_GROUP if group else _ALONE).format(name=function.__name__)
    imports = [text for text in parts.values() if text.startswith(("import ", "from ")) and text not in _HEAD]
    functions = [text for text in parts.values() if text.endswith("\n")]
    constants = [text for text in parts.values() if text not in (*imports, *functions) and text not in _HEAD]
    return "\n".join([_HEAD + "\n".join(imports) + "\n", *constants, "", *functions, _TAIL.format(body=body)])


def _collect(function: FunctionType, parts: dict[str, str]) -> None:
    parts[function.__name__] = ""  # so that a recursive function ends here
    source = inspect.getsource(function)
    for name in [*_globals_of(function.__code__), *_names_in_signature(source)]:
        if name in parts or name not in function.__globals__:
            continue
        value = function.__globals__[name]
        if isinstance(value, ModuleType):
            parts[name] = f"import {value.__name__}" + f" as {name}" * (name != value.__name__)
        elif isinstance(value, FunctionType) and value.__module__ == function.__module__:
            _collect(value, parts)
        elif type(value) in PLAIN and _is_written(value):
            parts[name] = f"{name} = {value!r}"
        elif (
            getattr(value, "__module__", "__main__") != "__main__"  # the script is another __main__
            and getattr(sys.modules.get(value.__module__), getattr(value, "__name__", ""), None) is value
        ):
            parts[name] = f"from {value.__module__} import {value.__name__}" + f" as {name}" * (name != value.__name__)
        else:
            raise ValueError(
                f"{function.__name__} uses {name}, a {type(value).__name__}, which cannot be written into a script: make it "
                "inside the function, or pass it as an argument"
            )
    parts.pop(function.__name__)
    parts[function.__name__] = source + "\n"


def _is_written(value: object) -> bool:
    """Whether the script reads back what is written: not an infinity, or a list of tensors."""
    try:
        return eval(repr(value), {"torch": torch}) == value
    except (NameError, SyntaxError):
        return False


def _names_in_signature(source: str) -> list[str]:
    """The names in a function's defaults and decorators."""
    head = ast.parse(source).body[0]
    parts = [*head.args.defaults, *filter(None, head.args.kw_defaults), *head.decorator_list]
    return [node.id for part in parts for node in ast.walk(part) if isinstance(node, ast.Name)]


def _globals_of(code: CodeType) -> Iterator[str]:
    """The global names that a function's code reads, inner functions included, in order."""
    names = {i.argval: None for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    yield from names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _globals_of(inner)


def on_ranks(
    world: int,
    function: Callable,
    *arguments,
    group: bool = True,
    check: bool = True,
    seconds: float = SECONDS,
    grace: float = GRACE_SECONDS,
    **environment: dict[int, str],
) -> list[Ended]:
    """Call `function(*arguments)` in `world` processes with torchrun's environment variables; how each ended, by rank.

    arguments and results: tensors and plain containers. group: see script_of. Lines that a rank prints appear with its
    rank in front. environment: changes to the variables of single ranks, RANK={1: "0"}. Ranks that still run after
    `seconds` in all, or `grace` seconds after one has failed, are killed. With `check`, a failed rank raises RuntimeError
    with the last lines of its output.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / SCRIPT).write_text(script_of(function, group))
        torch.save(arguments, folder / "arguments.pt")
        request = {"folder": name, "world": world, "seconds": seconds, "grace": grace, "environment": environment}
        codes, outputs = _ask(request)
        files = [folder / f"{rank}.pt" for rank in range(world)]
        results = [torch.load(file) if file.exists() else None for file in files]
    ended = [Ended(*parts) for parts in zip(codes, outputs, results, strict=True)]
    failed = [rank for rank, code in enumerate(codes) if code]
    if check and failed:
        first = outputs[failed[0]].strip().rpartition("\n")[2]
        last = "\n".join(f"rank {rank} ended with {codes[rank]}: {outputs[rank][-800:]}" for rank in failed)
        raise RuntimeError(f"{len(failed)} of {world} ranks failed: {first}\n{last}")
    return ended


def torchrun(
    script: Path, *arguments: str, world: int, options: tuple[str, ...] = (), seconds: float = START_SECONDS
) -> Ended:
    """Run a script under torchrun on this machine in `world` processes; torchrun's exit status and all output.

    After `seconds` torchrun gets SIGTERM, and ends its ranks.
    """
    line = [*_python(), str(TORCHRUN), "--standalone", f"--nproc-per-node={world}", *options]
    if PYTHON in os.environ:
        line += ["--no-python", *_python()]  # otherwise each rank imports torch anew
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen([*line, str(script), *arguments], env=environment, **pipes)
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        output, _ = process.communicate()
    return Ended(process.returncode, output)


def _python() -> list[str]:
    """How a command line begins, before a file and its arguments: a Python, with torch imported where one can be forked."""
    return os.environ[PYTHON].split("\n") if PYTHON in os.environ else [sys.executable, "-P"]


# ---- the notebook's side ---------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _server() -> str:
    """The path of the server's socket; the first call starts it. It notices when this process has ended.

    The server has a session of its own, so that interrupting a cell does not end it.
    """
    path = arbitrary_address("AF_UNIX")  # in a folder that only this user can enter
    process = subprocess.Popen([*_python(), __file__, path], stdin=subprocess.PIPE, start_new_session=True)
    atexit.register(_end, process)
    deadline = time.monotonic() + START_SECONDS
    while not Path(path).exists():
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise RuntimeError(f"the process that starts ranks did not start (exit status {process.wait()})")
        time.sleep(POLL_SECONDS)
    return path


def _end(server: subprocess.Popen) -> None:
    server.stdin.close()
    server.wait()


def _ask(request: dict) -> tuple[list[int], list[str]]:
    """Have the server start ranks and print their lines as they arrive; returns their exit statuses and outputs."""
    outputs = [""] * request["world"]
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(_server())
        with connection.makefile("rw") as stream:
            stream.write(json.dumps(request) + "\n")
            stream.flush()
            for text in stream:
                message = json.loads(text)
                if "codes" in message:
                    return message["codes"], outputs
                outputs[message["rank"]] += message["line"]
                print(f"[rank {message['rank']}] {message['line']}", end="")
    raise RuntimeError("the process that starts ranks is gone: restart the notebook")


# ---- the server's side -----------------------------------------------------------------------------------------------


def serve(path: str) -> None:
    """Answer requests until stdin ends, each in its own child process."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{path}~")
        listener.listen()
        os.rename(f"{path}~", path)  # only now: a client connects as soon as this path exists
        while True:
            ready, _, _ = select.select([listener, sys.stdin], [], [], 1.0)
            while _reap_child():
                pass
            if sys.stdin in ready:
                os.unlink(path)
                return
            if listener in ready:
                connection, _ = listener.accept()
                if os.fork() == 0:
                    _in_a_child(lambda connection=connection: _handle(connection))
                connection.close()


def _reap_child() -> bool:
    try:
        return os.waitpid(-1, os.WNOHANG)[0] > 0
    except ChildProcessError:
        return False


def _in_a_child(work: Callable[[], None]) -> None:
    """Do the work and exit without the parent's clean-up, which must not run twice."""
    code = 1
    try:
        work()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:
        traceback.print_exception(error.with_traceback(_from_script(error)))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _from_script(error: BaseException) -> TracebackType | None:
    """The traceback from the script on, without the frames of this module and runpy."""
    frames = error.__traceback__
    while frames and Path(frames.tb_frame.f_code.co_filename).name != SCRIPT:
        frames = frames.tb_next
    return frames or error.__traceback__


def _handle(connection: socket.socket) -> None:
    """Serve one request: start the ranks, forward their output, make sure that all end."""
    with connection.makefile("r") as stream:
        request = json.loads(stream.readline())
    port, ranks, pipes = _free_port(), {}, {}
    for rank in range(request["world"]):
        reading, writing = os.pipe()
        process = os.fork()
        if process == 0:
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            connection.close()
            _in_a_child(lambda rank=rank: _run_rank(rank, port, request))
        os.close(writing)
        ranks[process], pipes[reading] = rank, rank
    try:
        _monitor(connection, ranks, pipes, request)
    except BrokenPipeError:  # the client has gone
        pass
    finally:
        for process in ranks:
            os.kill(process, signal.SIGKILL)


def _monitor(connection: socket.socket, ranks: dict[int, int], pipes: dict[int, int], request: dict) -> None:
    """Forward the ranks' lines until all have ended, and kill them after the deadline. Removes ended ranks from `ranks`."""
    codes, rest = {}, dict.fromkeys(pipes, b"")
    deadline = time.monotonic() + request["seconds"]
    while ranks or pipes:
        ready, _, _ = select.select([*pipes, connection], [], [], POLL_SECONDS)
        if connection in ready and not connection.recv(1):
            return  # the client has gone
        for pipe in set(ready) - {connection}:
            read = os.read(pipe, 1 << 16)
            *lines, rest[pipe] = (rest[pipe] + read).split(b"\n")
            if not read:
                lines = [rest[pipe]] if rest[pipe] else []
            for line in lines:
                _send(connection, rank=pipes[pipe], line=line.decode(errors="replace") + "\n")
            if not read:
                os.close(pipe)
                del pipes[pipe]
        for process in list(ranks):
            ended, status = os.waitpid(process, os.WNOHANG)
            if ended:
                rank = ranks.pop(process)
                codes[rank] = os.waitstatus_to_exitcode(status)
                if codes[rank]:
                    deadline = min(deadline, time.monotonic() + request["grace"])
        if time.monotonic() > deadline:
            for process in ranks:
                os.kill(process, signal.SIGKILL)
    _send(connection, codes=[codes[rank] for rank in range(request["world"])])


def _send(connection: socket.socket, **message) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _run_rank(rank: int, port: int, request: dict) -> None:
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": request["world"], "MASTER_ADDR": "127.0.0.1"}
    variables |= {"MASTER_PORT": port, "LOCAL_WORLD_SIZE": request["world"]}
    variables |= {name: ranks[str(rank)] for name, ranks in request["environment"].items() if str(rank) in ranks}
    os.environ.update({name: str(value) for name, value in variables.items()})
    script = f"{request['folder']}/{SCRIPT}"
    sys.argv = [script, request["folder"]]
    runpy.run_path(script, run_name="__main__")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    torch.set_num_threads(1)
    for module in PRELOADED:
        importlib.import_module(module)
    serve(sys.argv[1])
