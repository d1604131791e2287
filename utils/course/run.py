"""Run the lectures, two at a time, each in its own process; show progress; write the ledger."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from tqdm import tqdm

from utils.course import ROOT
from utils.course.mutation.strength import stored
from utils.course.notebooks import forked_kernel, ledger
from utils.course.notebooks.notebook import BESIDE, Lecture, read
from utils.course.receipts.receipts import STORE, Receipt, receipts, status
from utils.device import fingerprint, pick_device
from utils.distributed.forked_python import forking, possible, python
from utils.distributed.launch import PYTHON

ENGINE = str(ROOT / "utils" / "course" / "notebooks" / "engine.py")  # which runs one notebook
FEW = 3  # with fewer notebooks, a process from which their kernels are forked costs more than it saves
HEARTBEAT = 30.0  # seconds between two lines about a lecture if the output is not a terminal


def run(
    paths: list[Path],
    build: Path,
    *,
    beside: Sequence[Path] = (),
    full: bool = False,
    jobs: int = 2,
    timeout: int | None = None,
    store: Path = STORE,
) -> int:
    """Execute the lectures in `paths`, write them and the ledger under `build`, print the ledger.

    `beside`: notebooks without claims that the pages show too; they run with the lectures, and have no row in the ledger.
    `timeout` is in seconds per cell, None for no limit; `store` holds the receipts of runs on GPUs. Returns the exit
    status: 1 if a claim or a cell failed, else 0, also where claims cannot be verified on this machine. Raises ValueError,
    before anything runs, for a notebook or a receipt that cannot be read and for two notebooks of one name.
    """
    lectures, others = [read(path) for path in paths], [read(path) for path in beside]
    names = [lecture.name for lecture in lectures]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two notebooks are called {min(twice)}.ipynb: run them apart, with --build for one")
    kept = receipts(store)
    header = header_of(full)
    began = time.monotonic()
    results = _all(lectures, others, build, header=header, timeout=timeout, kept=kept, jobs=jobs)
    results, more = results[: len(lectures)], results[len(lectures) :]
    ledger.write(build / "ledger.json", header, results)
    _report(results, more, build, time.monotonic() - began)
    return 1 if any(result.red for result in (*results, *more)) else 0


def run_beside(paths: list[Path], build: Path, *, jobs: int = 2, timeout: int | None = None) -> int:
    """Execute notebooks that the pages show beside the lectures; returns the exit status, 1 if a cell of them failed."""
    books = [read(path) for path in paths]
    results = _all([], books, build, header=header_of(full=False), timeout=timeout, kept=[], jobs=jobs)
    if failed := ledger.failures(results):
        print(failed)
    return 1 if failed else 0


def _all(lectures: list[Lecture], beside: list[Lecture], build: Path, *, header: dict, jobs: int, **how) -> list:
    """The results of all of them, in order."""
    books, workers = [*lectures, *beside], []
    places = [build / "notebooks"] * len(lectures) + [build / BESIDE] * len(beside)
    outputs = {book.path: place / book.path.name for book, place in zip(books, places, strict=True)}
    with kernels(books, header["device"]) as variables:
        one = partial(_one, outputs=outputs, header=header, workers=workers, variables=variables, **how)
        return at_once(books, one, jobs, workers)


def header_of(full: bool) -> dict:
    """The header of a run: device, versions, commit, date and form."""
    device = pick_device()
    machine = fingerprint(device)
    del machine["threads"]  # threads of this process; the lectures run with one
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "form": "full" if full else "short",
        "gpu": machine["hardware"] if device.type == "cuda" else None,
        **machine,
    }


def at_once(books: list, one: Callable, jobs: int, workers: list[subprocess.Popen]) -> list:
    """one(book) for all books, `jobs` at a time; the results in the books' order. An interrupt ends the workers.

    Those with most cells start first: they take longest, and none should run alone at the end.
    """
    with ThreadPoolExecutor(jobs) as pool:
        long_first = sorted(range(len(books)), key=lambda place: -len(books[place].cells))
        work = {place: pool.submit(one, books[place]) for place in long_first}
        try:
            return [work[place].result() for place in range(len(books))]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.kill()  # its kernel notices and ends too
            raise


@contextlib.contextmanager
def kernels(lectures: list[Lecture], device: str, extra: dict[str, str] | None = None) -> Iterator[dict[str, str]]:
    """Yields the variables of execute_and_judge: `extra`, and what has kernels and ranks forked where that helps.

    `device`: the type of the device on which the notebooks compute, such as "cpu".
    """
    extra = extra or {}
    if len(lectures) < FEW or not possible(device):
        yield extra
        return
    with forking(forked_kernel.INLINE | _environment(extra), forked_kernel.IMPORTED) as address:
        yield extra | {forked_kernel.ADDRESS: address, PYTHON: "\n".join(python(address))}


def _one(
    lecture: Lecture,
    *,
    outputs: dict[Path, Path],
    header: dict,
    timeout: int | None,
    workers: list,
    kept: list[Receipt],
    variables: dict[str, str],
) -> ledger.LectureResult:
    """Execute one notebook and judge it; `outputs` says where its executed copy goes."""
    result, _ = execute_and_judge(lecture, outputs[lecture.path], header, timeout, workers, variables)
    result = replace(result, strength=stored(lecture), elsewhere=status(lecture, kept))
    say(ledger.summary(result))
    return result


def execute_and_judge(
    lecture: Lecture, output: Path, header: dict, timeout: int | None, workers: list, environment: dict | None = None
) -> tuple[ledger.LectureResult, Lecture | None]:
    """Execute one notebook in its own process, to `output`; returns its result and the notebook with outputs, if any.

    The process is in `workers` while it runs; killing it there ends the notebook. `environment`: variables for it and for
    the notebook's kernel; its PYTHONPATH comes before the course's own.
    """
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    began, full = time.monotonic(), header["form"] == "full"
    problem = _execute(lecture, output, full=full, timeout=timeout, workers=workers, extra=environment or {})
    executed = read(output) if output.exists() else None
    seconds = time.monotonic() - began
    cuda = header["device"] == "cuda"
    return ledger.judge(lecture, executed, cuda=cuda, full=full, seconds=seconds, problem=problem), executed


def _execute(
    lecture: Lecture, output: Path, *, full: bool, timeout: int | None, workers: list, extra: dict[str, str]
) -> str:
    """Run the engine on one lecture in a new process; returns the problem, or "" if there is none."""
    forked = forked_kernel.ADDRESS in extra  # no need to import papermill again either
    program = [*python(extra[forked_kernel.ADDRESS]), ENGINE] if forked else [sys.executable, "-P", ENGINE]
    command = [*program, str(lecture.path.resolve()), str(output.resolve())]
    command += ["--full"] * full + ([f"--timeout={timeout}"] if timeout else [])
    with tempfile.TemporaryFile("w+") as errors:
        worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=_environment(extra))
        with worker:
            workers.append(worker)
            _follow(lecture, worker)
        errors.seek(0)
        last = [line for line in errors.read().splitlines() if line.strip()][-1:]
    return f"the run broke off with exit status {worker.returncode}: {' '.join(last)}" if worker.returncode else ""


def _environment(extra: dict[str, str]) -> dict[str, str]:
    """The variables of a process for notebooks. They share the cores, and use this utils, even if it is not installed."""
    paths = [extra.get("PYTHONPATH"), str(ROOT), os.environ.get("PYTHONPATH")]
    path = os.pathsep.join(filter(None, paths))
    return {"OMP_NUM_THREADS": "1", **os.environ, **extra, "PYTHONPATH": path}


def _follow(lecture: Lecture, worker: subprocess.Popen) -> None:
    """Show the worker's progress until it ends: a bar on a terminal, elsewhere a line now and then."""
    began = spoke = time.monotonic()
    total = len(lecture.cells)
    live = sys.stderr.isatty()
    with tqdm(total=total, desc=lecture.name, unit="cell", leave=False, disable=not live) as bar:
        for line in worker.stdout:
            step = _step(line)
            if not step:
                continue
            bar.total = step["total"]
            bar.set_postfix_str(step["cell"])
            bar.update(step["done"] - bar.n)
            if not live and time.monotonic() - spoke > HEARTBEAT:
                spoke = time.monotonic()
                say(f"{lecture.name}: {step['done']} of {step['total']} cells, {spoke - began:.0f} s")
        worker.wait()


def _step(line: str) -> dict | None:
    """The engine's progress; None for any other line of output."""
    with contextlib.suppress(json.JSONDecodeError):
        step = json.loads(line)
        if isinstance(step, dict) and {"done", "total", "cell"} <= step.keys():
            return step
    return None


def say(line: str) -> None:
    """Print a line where a bar may be moving."""
    tqdm.write(line, file=sys.stderr)


def _report(
    results: list[ledger.LectureResult], beside: list[ledger.LectureResult], build: Path, seconds: float
) -> None:
    failures = ledger.failures([*results, *beside])
    parts = [ledger.table(results), failures, ledger.unverified(results), ledger.elsewhere(results)]
    print("\n" + "\n\n".join(part for part in parts if part))
    print(f"\n{seconds:.0f} s in all · ledger {short(build / 'ledger.json')}")


def short(path: Path) -> Path:
    """From the current folder, where it is inside."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
