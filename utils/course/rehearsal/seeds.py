"""Run notebooks with every seed shifted, and list what turns red: a claim about anything random holds at any seed.

Shifted are all seeds that torch's generators, NumPy's and Python's are given, and those that the course derives from them,
in the kernel and in all processes that it starts. Shift n adds 1,000 · n, so that no seed meets another one.
"""

import random
import subprocess
import time
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path

from utils.course.notebooks import ledger
from utils.course.notebooks.ledger import FAILED
from utils.course.notebooks.notebook import Lecture, read
from utils.course.rehearsal.rehearse import at_start
from utils.course.run import at_once, execute_and_judge, header_of, kernels, say

SHIFTS = range(1, 21)
STEP = 1_000


def drawn(day: date) -> int:
    """The shift for a day: so that, over the days, all have their turn."""
    return random.Random(day.isoformat()).sample(SHIFTS, 1)[0]


def seeds(paths: list[Path], build: Path, *, shifts: list[int], jobs: int = 2, timeout: int | None = None) -> int:
    """Run the notebooks at each shift (none given: one drawn by today's date) and print what is red.

    Returns 1 if anything is red, else 0. Raises ValueError, before anything runs, for a notebook that cannot be read.
    """
    books, header, began = [read(path) for path in paths], header_of(False), time.monotonic()
    if not shifts:
        shifts = [drawn(datetime.now(UTC).date())]
        print(f"drawn by today's date; again with: python -m utils.course seeds --shift {shifts[0]}", flush=True)
    workers: list[subprocess.Popen] = []

    def one(shift: int, variables: dict[str, str], book: Lecture) -> ledger.LectureResult:
        output = build / "seeds" / str(shift) / book.path.name
        result, _ = execute_and_judge(book, output, header, timeout, workers, variables)
        say(f"{'✗' if result.red else '✓'} {book.name} at shift {shift}, {result.seconds:.1f} s")
        return result

    results = {}
    for shift in shifts:
        with kernels(books, header["device"], at_start(shift=STEP * shift)) as variables:
            done = at_once(books, partial(one, shift, variables), jobs, workers)
        results |= {(book.name, shift): result for book, result in zip(books, done, strict=True)}
    print(f"\n{_table([book.name for book in books], shifts, results)}\n")
    for (_, shift), result in results.items():
        if result.red:
            print(f"at shift {shift}:\n{ledger.failures([result])}\n")
    print(f"{time.monotonic() - began:.0f} s in all")
    return 1 if any(result.red for result in results.values()) else 0


def _table(names: list[str], shifts: list[int], results: dict[tuple[str, int], ledger.LectureResult]) -> str:
    """The number of red cells, a line for each notebook and a column for each shift; a dot for none."""
    wide = max(map(len, names))
    lines = [f"{'red at shift':<{wide}}" + "".join(f"{shift:>4}" for shift in shifts)]
    for name in names:
        red = [results[name, shift].count(FAILED) + len(results[name, shift].broken) for shift in shifts]
        lines.append(f"{name:<{wide}}" + "".join(f"{number or '·':>4}" for number in red))
    return "\n".join(lines)
