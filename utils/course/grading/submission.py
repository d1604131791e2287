"""A submission: the cells to run from a student's notebook and from the lab, and notes about anything unusual."""

import ast
import json
import re
from collections import Counter
from dataclasses import dataclass

import nbformat
from IPython.core.inputtransformer2 import TransformerManager

from utils.course.notebooks.lab import Lab, Task
from utils.course.notebooks.notebook import Cell, source_hash, text_of

LARGEST = 200 << 20  # bytes of a notebook, outputs included
MOST_CELLS = 5_000
LONGEST_SOURCE = 1 << 20  # characters of a cell
LONGEST_WITH_MAGICS = 100_000
FIRST = ("parameters", "setup")  # of the lab's own cells: they run before all of the student's
EXPECTING = {"expect", "expect_close", "expect_equal", "expect_raises"}


@dataclass(frozen=True)
class Submission:
    """cells: (id, source) of what is run, in order. code: task name -> the student's own text of it, "" if not found.

    given: id -> names that this cell, one of the lab's own, defines: questions find these, whatever was done to them later.
    """

    cells: tuple[tuple[str, str], ...]
    given: dict[str, tuple[str, ...]]
    code: dict[str, str]
    notes: tuple[str, ...] = ()


class Unreadable(Exception):
    """The submission is not a notebook; the message is a sentence for the student."""


def read_submission(raw: bytes, lab: Lab) -> Submission:
    """What of the notebook file `raw` is graded for `lab`. Raises Unreadable; smaller problems become notes."""
    notes: list[str] = []
    cells = _code_cells(raw, notes)
    ours = {cell.id: cell for cell in lab.book.code}
    checks = {cell.id for task in lab.tasks for cell in task.checks}
    after = _after_the_checks(lab)
    hashes = {source_hash(cell.source): cell.id for cell in lab.book.code}
    matched: list[tuple[str, str]] = []
    for name, source in cells:
        given = name if name in ours else hashes.get(source_hash(source), "")
        if given in checks or (not given.startswith("code-") and _asks(source)):
            if given in ours and source_hash(source) != source_hash(ours[given].source):
                notes.append(f"{given} was changed; the lab's own was used")
            continue
        if given in after:
            continue
        matched.append((given or name, source))
    twice = [name for name, count in Counter(name for name, _ in matched).items() if count > 1 and name in ours]
    notes += [f"{name} is there more than once; all were run, in order" for name in twice]
    code = {task.name: _code_of(task, matched) for task in lab.tasks}
    notes += [f"task {name} was not found" for name, source in code.items() if not source]
    if not any(code.values()):
        raise Unreadable(f"no task of {lab.name} is in it: is it another lab's file?")
    whole = _with_what_is_given(lab, matched)
    given = {name: tuple(sorted(_defined(source))) for name, source in whole if name.startswith("given-")}
    return Submission(tuple(whole), given, code, tuple(notes))


def _code_cells(raw: bytes, notes: list[str]) -> list[tuple[str, str]]:
    """(id, Python source) of each code cell."""
    if len(raw) > LARGEST:
        raise Unreadable(
            f"a file of {len(raw):,} bytes; at most {LARGEST:,} are read. Clear the outputs and send it again"
        )
    if not raw.strip():
        raise Unreadable("an empty file")
    try:
        book = json.loads(raw.decode("utf-8-sig"))
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Unreadable(f"not a notebook, its JSON cannot be read ({str(error)[:200]})") from error
    if not isinstance(book, dict) or not isinstance(book.get("nbformat"), int):
        raise Unreadable("not a notebook: it has no nbformat")
    if book["nbformat"] != 4:
        notes.append(f"a notebook of format {book['nbformat']}")
        book = _converted(book)
    cells = book.get("cells")
    if not isinstance(cells, list) or not cells:
        raise Unreadable("a notebook without cells")
    found, number = [], 0
    for cell in cells[:MOST_CELLS]:
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        number += 1
        source = _source_of(cell)
        name = (
            cell.get("id") or (cell.get("metadata") or {}).get("id")
            if isinstance(cell.get("metadata", {}), dict)
            else ""
        )
        known = isinstance(name, str) and re.fullmatch(r"(?!given-)[\w-]{1,64}", name)
        name = name if known else f"cell-{number}"
        found.append((name, python_of(source)))
    if len(cells) > MOST_CELLS:
        notes.append(f"only its first {MOST_CELLS:,} cells were read")
    return found


def _converted(book: dict) -> dict:
    try:
        return nbformat.convert(nbformat.from_dict(book), 4)
    except Exception as error:  # an old or invented format can raise any exception
        raise Unreadable(
            f"a notebook of format {book['nbformat']} that cannot be converted: save it from Jupyter"
        ) from error


def _source_of(cell: dict) -> str:
    source = cell.get("source", "")
    if isinstance(source, list) and all(isinstance(line, str) for line in source):
        source = text_of(source)
    if not isinstance(source, str):
        return ""
    return (
        source[:LONGEST_SOURCE].encode(errors="backslashreplace").decode()
    )  # JSON may contain half of a surrogate pair


def python_of(source: str) -> str:
    """A cell as Python: magics and shell lines become calls to get_ipython(), unless it is a very long one."""
    if len(source) > LONGEST_WITH_MAGICS:
        return source  # the search for each magic would start again from the beginning
    try:
        return TransformerManager().transform_cell(source)
    except Exception:  # its parser cannot handle everything; Python will report the error
        return source


def _asks(source: str) -> bool:
    """Whether a cell is a check, by what it calls: ask and an expectation, outside any function."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    calls = {
        node.func.id
        for statement in tree.body
        if isinstance(statement, ast.Expr | ast.Assign | ast.For | ast.With)
        for node in ast.walk(statement)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return "ask" in calls and bool(calls & EXPECTING)


def _after_the_checks(lab: Lab) -> set[str]:
    """The lab's own cells that come when all is checked: pictures, the last run, what the student's result is."""
    last = max(check.index for task in lab.tasks for check in task.checks)
    return {cell.id for cell in lab.others if cell.index > last}


def _code_of(task: Task, cells: list[tuple[str, str]]) -> str:
    """The student's code for a task: the cell with its id, or else those that define the task's names."""
    own = [source for name, source in cells if name == task.code.id]
    if own:
        return own[-1]
    wanted = _defined(task.code.source)
    return "\n\n".join(source for _, source in cells if wanted & _defined(source))


def _defined(source: str) -> set[str]:
    """The functions and classes that a cell defines at its top."""
    try:
        body = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(re.findall(r"^(?:def|class)\s+(\w+)", source, re.M))
    return {node.name for node in body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def _with_what_is_given(lab: Lab, cells: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The student's cells, with the lab's own of those that it gives: set-up first, the others before the student's.

    What the student left as it was runs once; of what is missing, the lab's runs before the first cell that followed it.
    """
    given = {cell.id: cell for cell in lab.others if cell.id not in _after_the_checks(lab)}
    order = [cell.id for cell in lab.book.code]
    present = {name for name, _ in cells}
    before: dict[str, list[Cell]] = {}
    for name, cell in given.items():
        place = name if name in present else next((n for n in order[order.index(name) :] if n in present), "")
        before.setdefault("" if name in FIRST else place, []).append(cell)
    whole = [(f"given-{cell.id}", cell.source) for cell in before.pop("", [])]
    for name, source in cells:
        whole += [(f"given-{cell.id}", cell.source) for cell in before.pop(name, [])]
        if name not in given or source_hash(source) != source_hash(given[name].source):
            whole.append((name, source))
    return whole
