"""Labs without a kernel: the code that a student has run by a check, and what the checks say of it."""

from collections.abc import Iterable

import pytest
from helpers import lab_worker
from helpers.paths import ROOT

from utils.course.notebooks.lab import Lab, Task, read_lab
from utils.lab import Ask, check_names, exception_from, kinds_and_text_of

SOLUTIONS = sorted((ROOT / "solutions").glob("*.ipynb"))
LABS = {path.stem: read_lab(path) for path in SOLUTIONS}
PASSED = "passed"
QUICK = "01_views_and_attention"  # stands for all labs where each of them would take long
COMPILES = "13_one_graph"  # with a C++ compiler

each_lab = pytest.mark.parametrize("lab", LABS.values(), ids=LABS)


def nightly_in(lab: str, *long: str) -> tuple:
    """The marks of a test that goes one of a hundred ways through this lab: nightly, if that takes long."""
    return (pytest.mark.nightly,) if lab in long else ()


def cells_of(lab: Lab, replaced: dict[str, str], last: Task) -> list[tuple[str, str]]:
    """The code cells up to that task's, without checks: what a student has run; `replaced`: cell id -> other code."""
    checks = {check.id for task in lab.tasks for check in task.checks}
    return [
        (cell.id, replaced.get(cell.id, cell.source))
        for cell in lab.book.code
        if cell.index <= last.code.index and cell.id not in checks
    ]


def verdicts(tasks: Iterable[Task], ask: Ask, seed: int = 0) -> dict[str, str]:
    """The id of each check of these tasks and its verdict: PASSED, or the kind of the exception and its text."""
    found = {}
    for check in (check for task in tasks for check in task.checks):
        try:
            exec(compile(check.source, f"<{check.id}>", "exec"), check_names(ask, seed))
            found[check.id] = PASSED
        except Exception as error:
            again = exception_from(
                *kinds_and_text_of(error)
            )  # a class of somebody's own arrives as the nearest built-in one
            found[check.id] = f"{type(again).__name__}: {again}"
    return found


def failing(
    lab: Lab, replaced: dict[str, str], tasks: list[Task] | None = None, seed: int = 0, worker=None
) -> dict[str, str]:
    """The verdicts of the checks (of all tasks, or of some) that fail; with a worker the code lives in that process."""
    tasks = tasks or list(lab.tasks)
    cells = cells_of(lab, replaced, max(tasks, key=lambda task: task.code.index))
    ask = lab_worker.RemoteAsk(worker, cells) if worker else Ask(lab_worker.run(cells))
    return {check: verdict for check, verdict in verdicts(tasks, ask, seed).items() if verdict != PASSED}


def unsolved(task: Task) -> dict[str, str]:
    return {task.code.id: task.starter}


def relying_on(lab: Lab, *tasks: Task) -> list[Task]:
    """The tasks themselves, and those that need them, or one that needs them."""
    names = {task.name for task in tasks}
    for other in lab.tasks:
        names |= {other.name} if names & set(other.needs) else set()
    return [other for other in lab.tasks if other.name in names]
