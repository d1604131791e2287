"""Read a lab's solution: its tasks, their checks and points. Make its starter, the notebook that students open.

A task called NAME is these cells, in this order:

    task-NAME    prose: what and why, the signature, an example worked by hand
    hints-NAME   prose: three hints, folded away
    code-NAME    the student's code, with the solution between its marks
    check-NAME   the check, with `points` in the cell's metadata, and `needs`, a list of the tasks whose code its own calls;
                 a line `ask.earned(2)` in it gives them in parts (see utils.lab.Ask)
    hidden-NAME  none or one: a check tagged `hidden`, with points of its own, that the starter does not have
    ways-NAME    none or one: prose, other ways to solve it; the starter does not have it, and shows it when its check passes

The marks, each on a line of its own:

    ### BEGIN SOLUTION: what the student reads when the code is still missing
    …
    ### END SOLUTION

In the starter `raise NotImplementedError("what the student reads …")` stands in their place. A line `### INSTEAD` before the
end splits the block: what follows it, less one `# ` a line, is the starter's text.

What else the starter says, and from which metadata, stands in starter_cells.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from utils.course.notebooks import starter_cells
from utils.course.notebooks.notebook import Cell, Lecture, parsed, read
from utils.course.notebooks.starter_cells import Facts
from utils.course.notebooks.tidy import CHECK, CHECKS, POINTS, tidied

BEGIN = re.compile(r"(?P<indent>\s*)### BEGIN SOLUTION(?:: (?P<hint>.*\S))?\s*")
INSTEAD = re.compile(r"\s*### INSTEAD\s*")
END = re.compile(r"\s*### END SOLUTION\s*")
MARK = re.compile(r"#\s*#\s*#|(?:BEGIN|END)\s+SOLUTION|#+\s*INSTEAD")  # misspelled ones too
NAME = re.compile(r"(task|hints|code|check|hidden)-([a-z0-9-]+)")


@dataclass(frozen=True)
class Task:
    """One task; its cells are those of the solution."""

    name: str
    prose: Cell
    hints: Cell
    code: Cell
    check: Cell
    hidden: Cell | None

    @property
    def checks(self) -> tuple[Cell, ...]:
        return (self.check, self.hidden) if self.hidden else (self.check,)

    @property
    def points(self) -> int:
        """The points of all its checks."""
        return sum(points_of(cell) for cell in self.checks)

    @property
    def needs(self) -> tuple[str, ...]:
        """The tasks whose code this task calls: it cannot pass while they are unsolved."""
        return tuple(self.check.raw.get("metadata", {}).get("needs", ()))

    @property
    def starter(self) -> str:
        """The code in the student's cell before the student edits it."""
        return without_solution(self.code.source)

    @property
    def refuses(self) -> bool:
        """Whether the starter raises NotImplementedError; otherwise the student changes working code."""
        return "raise NotImplementedError(" in self.starter


@dataclass(frozen=True)
class Lab:
    """A solution, parsed. `others` are the code cells that belong to no task, such as parameters, set-up and pictures."""

    book: Lecture
    tasks: tuple[Task, ...]
    others: tuple[Cell, ...]

    @property
    def name(self) -> str:
        return self.book.name


def read_lab(path: str | Path) -> Lab:
    """The lab whose solution is the file `path`. Raises ValueError, naming the cell, if a task is not made as above."""
    return lab_of(read(path))


def lab_of(book: Lecture) -> Lab:
    """The lab of a solution. Raises ValueError like read_lab."""
    groups: dict[str, dict[str, Cell]] = {}
    for cell in book.cells:
        match = NAME.fullmatch(cell.id)
        if match:
            group = groups.setdefault(match[2], {})
            if match[1] in group:
                raise ValueError(f"{book.path.name}: two cells {cell.id}")
            group[match[1]] = cell
    tasks = tuple(_task(book, name, cells) for name, cells in groups.items())
    inside = {cell.index for cells in groups.values() for cell in cells.values()}
    return Lab(book, tasks, tuple(cell for cell in book.code if cell.index not in inside))


def points_of(check: Cell) -> int:
    """The points in a check's metadata. ValueError unless they are a whole number above 0."""
    points = check.raw.get("metadata", {}).get("points")
    if type(points) is not int or points < 1:
        raise ValueError(f"cell {check.id}: points {points!r} in its metadata, not a whole number above 0")
    return points


def starter(solution: dict) -> dict:
    """The JSON of the starter, from that of a solution. ValueError, naming the cell, for bad marks or metadata."""
    lab = lab_of(parsed(tidied(solution), Path("solution.ipynb")))
    unsolved = {cell.id: _unsolved(cell) for cell in lab.book.code}
    tasks = [_facts(number, task) for number, task in enumerate(lab.tasks, 1)]
    by_cell = {
        cell.id: facts
        for task, facts in zip(lab.tasks, tasks, strict=True)
        for cell in (task.prose, task.code, task.check)
    }
    last = lab.tasks[-1].checks[-1].index
    cells = []
    for cell in lab.book.cells:
        facts, source = by_cell.get(cell.id), unsolved.get(cell.id, cell.source)
        if "hidden" in cell.tags or cell.id.startswith("ways-"):
            continue
        if cell.index == 0:
            source += "\n\n" + starter_cells.overview(*_plan(cell), tasks)
        elif cell.id.startswith("task-"):
            heading, _, text = source.partition("\n")
            source = f"{heading}\n\n{starter_cells.under_the_heading(facts)}\n{text}"
        elif cell.id.startswith("code-"):
            source = f"{starter_cells.first_line_of_code(facts)}\n{source}"
        elif cell.id.startswith(CHECK):
            source = starter_cells.check_source(facts)
        elif cell.kind == "code" and cell.index > last:
            needs = cell.raw["metadata"].get("needs") or [task.name for task in lab.tasks]
            source = f"{starter_cells.first_line_of_later_cell(needs)}\n{source}"
        raw = cell.raw | {"source": source.splitlines(keepends=True)}
        if cell.kind == "code" and facts:
            raw["metadata"] = cell.raw["metadata"] | {"tags": [starter_cells.RUN_ALL_GOES_ON]}
        cells.append(raw)
        if cell.id == "setup":
            asked = {task.name: task.check.source for task in lab.tasks}
            cells.append(_new_cell("code", POINTS, starter_cells.points_source(tasks)))
            cells.append(_new_cell("code", CHECKS, starter_cells.checks_source(asked)))
    cells.append(_new_cell("markdown", f"{starter_cells.HAND_IN}-intro", "## Your points, and what to hand in"))
    cells.append(_new_cell("code", starter_cells.HAND_IN, "progress.hand_in()"))
    return tidied(solution | {"cells": cells})


def _unsolved(cell: Cell) -> str:
    try:
        return without_solution(cell.source)
    except ValueError as error:
        raise ValueError(f"cell {cell.id}: {error}") from error


def _facts(number: int, task: Task) -> Facts:
    about = task.prose.raw["metadata"]
    for name, most in (("minutes", 600), ("difficulty", starter_cells.MOST), ("importance", starter_cells.MOST)):
        if about.get(name) not in range(1, most + 1):
            raise ValueError(f"cell {task.prose.id}: {name} {about.get(name)!r} in its metadata, not from 1 to {most}")
    return Facts(
        number,
        task.name,
        visible=points_of(task.check),
        hidden=points_of(task.hidden) if task.hidden else 0,
        minutes=about["minutes"],
        difficulty=about["difficulty"],
        importance=about["importance"],
        defines=starter_cells.defined(task.starter),
        unchanged="" if task.refuses else task.starter,
    )


def _plan(title: Cell) -> tuple[list[str], str]:
    """The lab's goals, and what it builds on."""
    about = title.raw["metadata"]
    for name in ("goals", "builds_on"):
        if not about.get(name):
            raise ValueError(f"cell {title.id}: no {name} in its metadata; see {starter_cells.__name__}")
    return about["goals"], about["builds_on"]


def _new_cell(kind: str, name: str, source: str) -> dict:
    return {"cell_type": kind, "id": name, "metadata": {}, "source": source}


def without_solution(source: str) -> str:
    """A cell's code with each solution replaced. Raises ValueError, with the line, for marks that do not pair."""
    starter: list[str] = []
    for number, line, part, mark in _parts(source):
        if part == "outside":
            starter.append(line)
        elif part == "begin" and mark["hint"]:
            starter.append(f'{mark["indent"]}raise NotImplementedError("{mark["hint"]}")')
        elif part == "instead" and line.strip():
            text = re.fullmatch(r"(\s*)#(?: (.*))?", line)
            if text is None:
                raise ValueError(f"line {number}: after ### INSTEAD every line starts with '# ', not {line.strip()!r}")
            starter.append((text[1] + (text[2] or "")).rstrip())
    return "\n".join(starter)


def solution_lines(source: str) -> list[str]:
    """The lines of a cell that only a solution has, without outer blanks."""
    return [line.strip() for _, line, part, _ in _parts(source) if part == "solution" and line.strip()]


def _parts(source: str):
    """Each line as (number, line, "outside" | "begin" | "solution" | "instead", match of the mark that began its block)."""
    begun, part = None, "outside"
    for number, line in enumerate(source.split("\n"), 1):
        if begin := BEGIN.fullmatch(line):
            if begun:
                raise ValueError(f"line {number}: a solution begins inside another")
            if '"' in (begin["hint"] or "") or "\\" in (begin["hint"] or ""):
                raise ValueError(f'line {number}: a hint without " and \\, please')
            begun, part = begin, "solution"
            yield number, line, "begin", begin
        elif INSTEAD.fullmatch(line):
            if part != "solution" or begun["hint"]:
                raise ValueError(f"line {number}: ### INSTEAD stands once in a solution that begins without a hint")
            part = "instead"
        elif END.fullmatch(line):
            if not begun:
                raise ValueError(f"line {number}: a solution ends that never began")
            if part == "solution" and not begun["hint"]:
                raise ValueError(f"line {number}: a solution with neither a hint after its BEGIN nor ### INSTEAD")
            begun, part = None, "outside"
        elif MARK.search(line):
            raise ValueError(f"line {number}: {line.strip()!r} is nearly a mark; see {__name__}")
        else:
            yield number, line, part, begun
    if begun:
        raise ValueError("a solution begins and never ends")


def _task(book: Lecture, name: str, cells: dict[str, Cell]) -> Task:
    missing = [f"{part}-{name}" for part in ("task", "hints", "code", "check") if part not in cells]
    if missing:
        raise ValueError(f"{book.path.name}: task {name} has no cell {', '.join(missing)}")
    return Task(name, *(cells[part] for part in ("task", "hints", "code", "check")), cells.get("hidden"))
