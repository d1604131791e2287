"""Run the cells of a lecture once, and at some cells fork a process that continues with changed code.

    python -m utils.course.mutation.fork_runner < PLAN

executes `cells` in order in this process. Before the cell that a trial names it forks: the child executes the trial's
source in the cell's place, then the cells that the trial lists, and reports how that ended. The parent does not see the
change, and its folder of temporary files is restored. One trial runs at a time. The plan is JSON:

    {"cells": [{"id", "source"}], "trials": [{"trial", "at", "source", "lines", "then", "limit"}], "trials_only", "memory",
     "not_verified"}

with the trials in the order of their cells. Cells are meant by their position; lines are the first and last of the
changed statement; limit in seconds; memory in bytes that a trial may allocate. One line of JSON comes out for each cell
and for each trial. With trials_only the run ends with the last trial. A cell that prints a line that starts with
not_verified says that its proof cannot run here.

A trial is killed by an assert, or it survives, or it crashes. It is stillborn if Python or torch refuses the changed
statement itself (a wrong type, a bad value), or if there or later a size does not match: then there is no value that an
assert could check.

Cells are executed by plain `exec`, without IPython: an assert says the same there, and a fork of a process without
a kernel's threads is safe. torch's backward works in the child (torch renews its engine there). What does not work is a
second OpenMP thread in a child once the parent has had one: such a trial hangs and meets its time limit.
"""

import ast
import contextlib
import importlib.util
import io
import json
import linecache
import os
import re
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
import types
from pathlib import Path

KILLED, CRASHED, STILLBORN, SURVIVED = "killed", "crashed", "stillborn", "survived"
TESTING = tuple(str(Path(importlib.util.find_spec(name).origin).parent / "testing") for name in ("torch", "numpy"))
DETECTORS = str(Path(__file__).parents[2] / "checks")
CELL = "<cell "
UNFIT = re.compile(  # messages, of torch and einops above all, about sizes that do not match
    r"shapes cannot be multiplied|must match (?:the|existing) size|must match except|is invalid for input of size"
    r"|Expected size for first two dimensions|[Ss]hape mismatch|size mismatch|does not broadcast|expected input\[.* channels"
    r"|to match target batch_size|Dimension out of range|normalized_shape|must be divisible|should contain \d+ elements"
    r"|Target \d+ is out of bounds|out of bounds for dimension|index out of range in self|of size .* to a tensor of size"
    r"|split_sizes to sum exactly|Expected target size|has to be between 0 and 1|expects std >= 0"
    r"|must be equal to input_size|negative dimension|can't allocate memory"
    r"|does not split into \d+ heads|are more than the context"  # of utils.models
    r"|zip\(\) argument \d+ is (shorter|longer)|(too many|not enough) values to unpack"  # of Python
)
GRACE = 2.0  # seconds after the limit at which a trial that blocks its alarm is killed


class Workspace:
    """The working folder of all runs, with temporary files. Each trial starts with it as the cells left it."""

    def __init__(self, folder: Path):
        self.folder, self.copy = folder / "work", folder / "copy"
        self.folder.mkdir()
        self._kept: dict = {}

    def keep(self) -> None:
        """Update the copy if the folder differs from it."""
        if self._looks() != self._kept:
            shutil.rmtree(self.copy, ignore_errors=True)
            shutil.copytree(self.folder, self.copy, symlinks=True, ignore=_no_files)
            self._kept = self._looks()

    def put_back(self) -> None:
        """Restore the folder to what keep() copied, at the same path, which the lecture's variables may hold."""
        if self._looks() == self._kept:
            return
        for entry in {self.folder / path.relative_to(self.folder).parts[0] for path in self._files()}:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        if self._kept:
            shutil.copytree(self.copy, self.folder, symlinks=True, dirs_exist_ok=True)

    def _looks(self) -> dict:
        looks = {path: path.lstat() for path in self._files()}
        return {path: (look.st_mode, look.st_size, look.st_mtime_ns) for path, look in looks.items()}

    def _files(self) -> list[Path]:
        left_out = set(_no_files(str(self.folder), [entry.name for entry in self.folder.iterdir()]))
        tops = [entry for entry in self.folder.iterdir() if entry.name not in left_out]
        return [path for top in tops for path in [top, *(top.rglob("*") if top.is_dir() else [])]]


def _no_files(folder: str, names: list[str]) -> set[str]:
    """Ignored: the sockets of multiprocessing and their folders."""
    return {name for name in names if name.startswith("pymp-") or Path(folder, name).is_socket()}


def try_out(trial: dict, steps: list[tuple[str, str]], namespace: dict, memory: int) -> dict:
    """Fork, and execute `steps`, (cell id, source) each, in the child; returns how that ended."""
    reading, writing = os.pipe()
    process, began = os.fork(), time.monotonic()
    if process == 0:
        _be_a_trial(trial, steps, namespace, memory, writing)
    os.close(writing)
    os.set_blocking(reading, False)
    while os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if time.monotonic() - began > trial["limit"] + GRACE:
            _kill_group(process)
        time.sleep(0.002)
    _kill_group(process)  # its leftover workers; the group id is not reused before waitpid
    _, status = os.waitpid(process, 0)
    seconds, said = time.monotonic() - began, b""
    with contextlib.suppress(BlockingIOError):
        said = os.read(reading, 1 << 16)
    os.close(reading)
    outcome, why = json.loads(said) if said else (CRASHED, _ending(status, seconds, trial["limit"]))
    return {"trial": trial["trial"], "outcome": outcome, "why": why, "seconds": round(seconds, 3)}


def _kill_group(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def _ending(status: int, seconds: float, limit: float) -> str:
    if seconds >= limit:
        return f"over its time limit of {limit:.0f} s"
    return f"ended with signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "ended without a word"


def _be_a_trial(trial: dict, steps, namespace: dict, memory: int, writing: int) -> None:
    """Run the child; never returns."""
    try:
        os.setsid()  # its own process group, so that its workers can be killed with it
        os.dup2(1, 2)  # both are silent
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, trial["limit"])
        used = 1024 * int(Path("/proc/self/status").read_text().split("VmData:")[1].split()[0]) if _LINUX else 0
        if _LINUX:
            resource.setrlimit(resource.RLIMIT_DATA, (used + memory, resource.RLIM_INFINITY))
        outcome = _outcome(steps, namespace, range(trial["lines"][0], trial["lines"][1] + 1))
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        os.write(writing, json.dumps(outcome).encode())
    finally:
        os._exit(0)


_LINUX = sys.platform == "linux"


def _outcome(steps, namespace: dict, changed: range) -> tuple[str, str]:
    """How the steps end, and the exception with its cell. The first step is the changed cell, with the lines `changed`."""
    for name, source in steps:
        try:
            execute(name, source, namespace)
        except BaseException as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            if by_an_assert(error):
                return KILLED, f"{name}: {words}"
            frames = traceback.extract_tb(error.__traceback__)
            refused = any(f.filename == f"{CELL}{steps[0][0]}>" and f.lineno in changed for f in frames)
            return (STILLBORN if refused or UNFIT.search(words) else CRASHED), f"{name}: {words}"
    return SURVIVED, ""


def by_an_assert(error: BaseException) -> bool:
    """Whether an assert of a cell, `raises`, a detector of utils or a testing library raised `error`; not torch itself."""
    if not isinstance(error, AssertionError):
        return False
    raised_in = traceback.extract_tb(error.__traceback__)[-1].filename
    return raised_in.startswith((CELL, DETECTORS, *TESTING))


def execute(name: str, source: str, namespace: dict) -> None:
    """Execute one cell, with its source registered for inspect.getsource."""
    filename = f"{CELL}{name}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    exec(compile(ast.parse(source, filename), filename, "exec", dont_inherit=True), namespace)


def _only_this_machine(host, *args, _look_up=socket.getaddrinfo, **options):
    if host not in (None, "", "localhost", "127.0.0.1", "::1", socket.gethostname()):
        raise OSError(f"no network here: {host!r}")
    return _look_up(host, *args, **options)


def run(plan: dict, workspace: Workspace, tell) -> None:
    """Execute the plan in this process; `tell` gets the dicts that are described above."""
    module = types.ModuleType("__main__")  # for pickle and multiprocessing, as in a kernel
    module.display = lambda *things: None
    sys.modules["__main__"] = module
    cells, trials = [(cell["id"], cell["source"]) for cell in plan["cells"]], plan["trials"]
    for position, (name, source) in enumerate(cells):
        if trials and trials[0]["at"] == position:
            workspace.keep()
        while trials and trials[0]["at"] == position:
            trial = trials.pop(0)
            steps = [(name, trial["source"]), *(cells[then] for then in trial["then"])]
            tell(try_out(trial, steps, module.__dict__, plan["memory"]))
            workspace.put_back()
        if not trials and plan["trials_only"]:
            break
        began, said, error = time.monotonic(), io.StringIO(), ""
        try:
            with contextlib.redirect_stdout(said):
                execute(name, source, module.__dict__)
        except BaseException as problem:  # SystemExit too: the cell has failed, and the caller must know
            error = f"{type(problem).__name__}: {problem}"
        unverified = any(line.startswith(plan["not_verified"]) for line in said.getvalue().splitlines())
        seconds = time.monotonic() - began
        tell({"cell": name, "seconds": round(seconds, 3), "unverified": unverified, "error": error})
        if error:
            break


def main() -> None:
    plan = json.load(sys.stdin)
    out = os.dup(1)
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(silence, stream)
    socket.getaddrinfo = _only_this_machine
    with tempfile.TemporaryDirectory() as folder:
        workspace = Workspace(Path(folder))
        os.chdir(workspace.folder)
        os.environ["TMPDIR"] = tempfile.tempdir = str(workspace.folder)
        run(plan, workspace, lambda line: os.write(out, json.dumps(line).encode() + b"\n"))
        os.chdir("/")


if __name__ == "__main__":
    main()
