"""Ranks for a notebook: several real processes run a function of the notebook, and none outlives the call.

The function is written to a script, together with the functions, imports and constants that it uses, so that the reader
can see what the processes run. The ranks are forked from a Python that has imported torch already, so that they start
soon, and get the environment variables that torchrun would set.
"""

import ast
import atexit
import dis
import inspect
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

import torch

from utils.distributed.forked_python import forking, python

PRELOADED = ("utils.loop",)  # beside torch, by the Python that ranks are forked from
PYTHON = "COURSE_PYTHON"  # the variable that says how a Python begins that has imported torch already, a line a word
SCRIPT = "script.py"
TORCHRUN = Path(torch.__file__).with_name("distributed") / "run.py"
SECONDS = 60.0  # until ranks that still run are killed
GRACE_SECONDS = 3.0  # the same after one of them has failed
START_SECONDS = 300.0  # for torchrun and its ranks to import torch, on a busy machine
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
        if name in parts or name not in function.__globals__ or name == "__name__":  # the script has its own
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
        port, ranks = _free_port(), []
        try:
            for rank in range(world):
                changes = {key: of_ranks[rank] for key, of_ranks in environment.items() if rank in of_ranks}
                ranks.append(_start(rank, world, port, folder, changes))
            outputs = _follow(ranks, seconds, grace)
        finally:
            for process in ranks:
                process.kill()
                process.wait()
                process.stdout.close()
        codes = [process.returncode for process in ranks]
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


# ---- its processes ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)
def _address() -> str:
    """Where ranks are forked; the first call starts that server, which ends with this process."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(forking(os.environ | {"OMP_NUM_THREADS": "1"}, PRELOADED, start=tuple(_python())))


def _start(rank: int, world: int, port: int, folder: Path, changes: dict[str, str]) -> subprocess.Popen:
    """A rank in a process, with a session of its own: interrupting a cell does not reach it."""
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port} | changes
    return subprocess.Popen(
        [*python(_address()), str(folder / SCRIPT), str(folder)],
        env=os.environ | {name: str(value) for name, value in variables.items()},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _follow(ranks: list[subprocess.Popen], seconds: float, grace: float) -> list[str]:
    """Print the ranks' lines as they arrive until all have ended, or kill them after their time; their outputs."""
    outputs, rest = [""] * len(ranks), [b""] * len(ranks)
    deadline, failed = time.monotonic() + seconds, False
    with selectors.DefaultSelector() as waiting:
        for rank, process in enumerate(ranks):
            waiting.register(process.stdout, selectors.EVENT_READ, rank)
        while waiting.get_map() or any(process.poll() is None for process in ranks):
            for key, _ in waiting.select(POLL_SECONDS):
                read = os.read(key.fd, 1 << 16)
                *lines, rest[key.data] = (rest[key.data] + read).split(b"\n")
                if not read:
                    waiting.unregister(key.fileobj)
                    lines = [rest[key.data]] if rest[key.data] else []
                for line in lines:
                    text = line.decode(errors="replace") + "\n"
                    outputs[key.data] += text
                    print(f"[rank {key.data}] {text}", end="")
            if not failed and any(process.poll() for process in ranks):
                failed, deadline = True, min(deadline, time.monotonic() + grace)
            if time.monotonic() > deadline:
                for process in ranks:
                    process.kill()
    return outputs


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
