"""Run notebooks on the stand-in GPU, a device that is not the CPU, and say for each proof whether it ran there.

A proof is red that fails there; that runs no operator on the device and is not tagged `host`; or that is tagged `host` and
runs one all the same. Operators of processes that a proof starts are counted too.
"""

import importlib.util
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from utils.course import ROOT
from utils.course.notebooks import ledger
from utils.course.notebooks.ledger import UNVERIFIED, VERIFIED, Verdict
from utils.course.notebooks.notebook import Lecture, read
from utils.course.rehearsal.startup import sitecustomize
from utils.course.run import execute_and_judge, header_of, say

STANDIN = ROOT / "tests" / "standin_gpu" / "standin.py"
STARTUP = str(Path(sitecustomize.__file__).parent)


@dataclass(frozen=True)
class Rehearsed:
    """One notebook after its rehearsal; `strays` are the proofs that did not run where they should."""

    result: ledger.Result
    strays: tuple[tuple[str, str], ...]  # (number of the claim, what is wrong)

    @property
    def red(self) -> bool:
        return self.result.red or bool(self.strays)


def rehearse(paths: list[Path], build: Path, *, jobs: int = 2, timeout: int | None = None) -> int:
    """Run the notebooks, write their copies under `build`, print what ran on the device and what is red.

    `timeout` is in seconds per cell. Returns 1 if anything is red, else 0. Raises ValueError,
    before anything runs, where the stand-in GPU cannot be built, and for a notebook that cannot be read.
    """
    books = [read(path) for path in paths]
    standin = _standin()
    if reason := standin.why_not():
        raise ValueError(reason)
    standin.build()
    header, began = header_of(False) | {"device": standin.NAME, "gpu": None}, time.monotonic()
    workers: list[subprocess.Popen] = []

    def one(book: Lecture) -> Rehearsed:
        folder = build / "rehearsal" / book.path.resolve().parent.name
        count = folder / f"{book.name}.count"
        count.unlink(missing_ok=True)
        environment = at_start(device=STANDIN) | {standin.COUNT: str(count.resolve())}
        result, _ = execute_and_judge(book, folder / book.path.name, header, timeout, workers, environment)
        done = Rehearsed(result, tuple(_strays(result)))
        say(f"{'✗' if done.red else '✓'} {result.name}: {_in_brief(done)}, {result.seconds:.1f} s")
        return done

    results = in_order(books, one, jobs, workers)
    print(f"\n{_table(results)}\n")
    print("".join(f"{block}\n\n" for block in filter(None, map(_what_is_red, results))), end="")
    print(f"{time.monotonic() - began:.0f} s in all")
    return 1 if any(done.red for done in results) else 0


def at_start(*, device: Path | None = None, shift: int = 0) -> dict[str, str]:
    """The environment in which every Python process gets the device of that module, and every seed is shifted."""
    variables = {sitecustomize.DEVICE: str(device) if device else "", sitecustomize.SHIFT: str(shift) if shift else ""}
    return {"PYTHONPATH": STARTUP} | {name: text for name, text in variables.items() if text}


def in_order(books: list, one, jobs: int, workers: list[subprocess.Popen]) -> list:
    """one(book) for all books, `jobs` at a time; the results in the books' order. An interrupt ends the workers."""
    with ThreadPoolExecutor(jobs) as pool:
        work = [pool.submit(one, book) for book in books]
        try:
            return [future.result() for future in work]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for worker in workers:
                worker.kill()  # its kernel notices and ends too
            raise


def _standin() -> ModuleType:
    if not STANDIN.exists():
        raise ValueError(f"no stand-in GPU: {STANDIN} is missing, so call this in a checkout of the whole repository")
    spec = importlib.util.spec_from_file_location("standin", STANDIN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _strays(result: ledger.Result) -> list[tuple[str, str]]:
    found = [(verdict.claim.number, why) for verdict in result.verdicts if (why := _stray(verdict))]
    return [] if any(cell == ledger.WHOLE for cell, _ in result.broken) else found


def _stray(verdict: Verdict) -> str:
    """Why the proof did not run where it should, "" if it did, failed, or cannot run on this machine."""
    if verdict.status != VERIFIED:
        return ""
    if verdict.host and verdict.work:
        return (
            f"is tagged host, and ran {verdict.work} operators on the device: remove the tag, or keep it off the device"
        )
    if not verdict.host and not verdict.work:
        return "ran no operator on the device: move it there, or tag it host and say why"
    return ""


def _in_brief(done: Rehearsed) -> str:
    result = done.result
    if not result.verdicts:
        return f"{len(result.broken)} red cells" if result.broken else "green"
    red = result.count(ledger.FAILED) + len(result.broken)
    parts = [f"{result.on_device} of {len(result.verdicts)} proofs on the device", f"{result.host} host"]
    return ", ".join(
        [*parts, *([f"{len(done.strays)} astray"] if done.strays else []), *([f"{red} red"] if red else [])]
    )


def _table(results: list[Rehearsed]) -> str:
    wide = max(len(done.result.name) for done in results)
    head = f"{'notebook':<{wide}}  proofs  on device  host  not here  astray  red  operators  seconds"
    lines = [head, "─" * len(head), *(_line(done.result.name, [done], wide) for done in results)]
    return "\n".join([*lines, "─" * len(head), _line("total", results, wide)])


def _line(label: str, group: list[Rehearsed], wide: int) -> str:
    results = [done.result for done in group]
    claims, on_device, host, absent, red, work = (
        sum(map(count, results))
        for count in (
            lambda result: len(result.verdicts),
            lambda result: result.on_device,
            lambda result: result.host,
            lambda result: result.count(UNVERIFIED),
            lambda result: result.count(ledger.FAILED) + len(result.broken),
            lambda result: sum(verdict.work or 0 for verdict in result.verdicts),
        )
    )
    strays, seconds = sum(len(done.strays) for done in group), sum(result.seconds for result in results)
    numbers = f"{claims:>6}  {on_device:>9}  {host:>4}  {absent:>8}  {strays:>6}  {red:>3}  {work:>9,}  {seconds:>7.1f}"
    return f"{label:<{wide}}  {numbers}"


def _what_is_red(done: Rehearsed) -> str:
    strays = [f"ASTRAY  {done.result.name}, claim {number} {why}" for number, why in done.strays]
    return "\n".join(filter(None, [ledger.failures([done.result]), *strays]))
