"""Run notebooks on the stand-in GPU, a device that is not the CPU, and say for each proof whether it ran there.

A proof is red that fails there. It is astray if it runs no operator on the device and is not tagged `host`, or if it is
tagged `host` and runs one all the same. Operators of processes that a proof starts are counted too. Noise is what a passing
cell writes to stderr, and a path of this machine in what it prints. All three make the rehearsal fail.
"""

import importlib.util
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from utils.course import ROOT
from utils.course.notebooks import ledger
from utils.course.notebooks.ledger import UNVERIFIED, VERIFIED, Verdict
from utils.course.notebooks.notebook import Lecture, read, text_of
from utils.course.rehearsal.startup import sitecustomize
from utils.course.run import at_once, execute_and_judge, header_of, say

STANDIN = ROOT / "tests" / "standin_gpu" / "standin.py"
MACHINE = (str(ROOT), "site-packages", tempfile.gettempdir() + "/")  # what a path of this machine begins with
QUIET = {"TORCH_CPP_LOG_LEVEL": "ERROR"}  # DDP warns on devices of which it keeps no times
STARTUP = str(Path(sitecustomize.__file__).parent)


@dataclass(frozen=True)
class Rehearsal:
    """One notebook after its rehearsal.

    strays: (number of the claim, what is wrong) of the proofs that did not run where they should;
    unexpected_lines: (cell id, line).
    """

    result: ledger.LectureResult
    strays: tuple[tuple[str, str], ...]
    unexpected_lines: tuple[tuple[str, str], ...]

    @property
    def red(self) -> bool:
        return self.result.red or bool(self.strays or self.unexpected_lines)


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

    def one(book: Lecture) -> Rehearsal:
        folder = build / "rehearsal" / book.path.resolve().parent.name
        count = folder / f"{book.name}.count"
        count.unlink(missing_ok=True)
        environment = at_start(device=STANDIN) | QUIET | {standin.COUNT: str(count.resolve())}
        result, executed = execute_and_judge(book, folder / book.path.name, header, timeout, workers, environment)
        done = Rehearsal(result, tuple(_strays(result)), tuple(unexpected_lines(executed)) if executed else ())
        say(f"{'✗' if done.red else '✓'} {result.name}: {_in_brief(done)}, {result.seconds:.1f} s")
        return done

    results = at_once(books, one, jobs, workers)
    print(f"\n{_table(results)}\n")
    print("".join(f"{block}\n\n" for block in filter(None, map(_what_is_red, results))), end="")
    print(f"{time.monotonic() - began:.0f} s in all")
    return 1 if any(done.red for done in results) else 0


def at_start(*, device: Path | None = None, shift: int = 0) -> dict[str, str]:
    """The environment in which every Python process gets the device of that module, and every seed is shifted."""
    variables = {sitecustomize.DEVICE: str(device) if device else "", sitecustomize.SHIFT: str(shift) if shift else ""}
    return {"PYTHONPATH": STARTUP} | {name: text for name, text in variables.items() if text}


def _standin() -> ModuleType:
    if not STANDIN.exists():
        raise ValueError(f"no stand-in GPU: {STANDIN} is missing, so call this in a checkout of the whole repository")
    spec = importlib.util.spec_from_file_location("standin", STANDIN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _strays(result: ledger.LectureResult) -> list[tuple[str, str]]:
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


def unexpected_lines(executed: Lecture) -> list[tuple[str, str]]:
    """(cell id, line) of what passing cells wrote to stderr, and of lines with a path of this machine; the first of each."""
    found = []
    for cell in executed.code:
        if ledger.error_of(cell):
            continue
        for output in cell.raw["outputs"]:
            for line in text_of(output.get("text", "")).splitlines():
                if line.strip() and (output.get("name") == "stderr" or any(path in line for path in MACHINE)):
                    found.append((cell.id, line.strip()))
                    break
    return found


def _in_brief(done: Rehearsal) -> str:
    result = done.result
    counts = {
        "red": result.count(ledger.FAILED) + len(result.broken),
        "astray": len(done.strays),
        "noisy": len(done.unexpected_lines),
    }
    on_device = [f"{result.on_device} of {len(result.verdicts)} proofs on the device, {result.host} host"]
    return ", ".join(on_device * bool(result.verdicts) + [f"{n} {what}" for what, n in counts.items() if n]) or "green"


def _table(results: list[Rehearsal]) -> str:
    wide = max(len(done.result.name) for done in results)
    head = f"{'notebook':<{wide}}  proofs  on device  host  not here  astray  noisy  red  operators  seconds"
    lines = [head, "─" * len(head), *(_line(done.result.name, [done], wide) for done in results)]
    return "\n".join([*lines, "─" * len(head), _line("total", results, wide)])


def _line(label: str, group: list[Rehearsal], wide: int) -> str:
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
    strays, noisy = sum(len(done.strays) for done in group), sum(len(done.unexpected_lines) for done in group)
    numbers = f"{claims:>6}  {on_device:>9}  {host:>4}  {absent:>8}  {strays:>6}  {noisy:>5}  {red:>3}  {work:>9,}"
    return f"{label:<{wide}}  {numbers}  {sum(result.seconds for result in results):>7.1f}"


def _what_is_red(done: Rehearsal) -> str:
    strays = [f"ASTRAY  {done.result.name}, claim {number} {why}" for number, why in done.strays]
    noisy = [f"NOISY   {done.result.name}, cell {cell}: {line[:160]}" for cell, line in done.unexpected_lines]
    return "\n".join(filter(None, [ledger.failures([done.result]), *strays, *noisy]))
