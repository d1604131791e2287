"""A submission: the cells to run from a student's notebook and from the lab, and notes about anything unusual."""

import ast
import contextlib
import json
import re
from collections import Counter
from dataclasses import dataclass

from IPython.core.inputtransformer2 import TransformerManager

from utils.course.notebooks.lab import Lab, Task
from utils.course.notebooks.notebook import Cell, source_hash, text_of
from utils.course.notebooks.starter_cells import HAND_IN, without_magic
from utils.course.notebooks.tidy import POINTS

LARGEST = 200 << 20  # bytes of a notebook, outputs included
MOST_CELLS = 5_000
LONGEST_SOURCE = 1 << 20  # characters of a cell
LONGEST_WITH_MAGICS = 20_000
LONGEST_KEPT = 200_000  # characters of the code that is shown for a task
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
PARAMETERS, SETUP = "parameters", "setup"  # of the lab's own cells: they run before all others
INJECTED = "given-injected-parameters"
ELSEWHERE = "cells of one's own"  # in Submission.code, beside the names of tasks


@dataclass(frozen=True)
class Submission:
    """cells: (id, source) of what is run, in order, as IPython reads it. code: task name -> the student's own text of it, ""
    if not found; under ELSEWHERE all that stands in cells of the student's own.

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
        same = hashes.get(source_hash(source), "")
        given = name if name in ours else same
        if same in checks or given in after or name in (POINTS, HAND_IN):
            continue
        if given in checks:
            notes.append(f"{given} was changed; points come from the lab's own")
        matched.append((given or name, source))
    twice = [name for name, count in Counter(name for name, _ in matched).items() if count > 1 and name in ours]
    notes += [f"{name} is there more than once; all were run, in order" for name in twice]
    code = {task.name: _code_of(task, matched) for task in lab.tasks}
    own = [source for name, source in matched if name not in ours]
    notes += [f"task {name} was not found" for name, source in code.items() if not source]
    if not any(code.values()):
        raise Unreadable(f"no task of {lab.name} is in it: is it another lab's file?")
    whole = _with_what_is_given(lab, matched)
    given = {name: tuple(sorted(_defined(source))) for name, source in whole if name.startswith("given-")}
    return Submission(tuple(whole), given, code | {ELSEWHERE: "\n\n".join(own)[:LONGEST_KEPT]}, tuple(notes))


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
        found.append((name, without_magic(source)))
    if len(cells) > MOST_CELLS:
        notes.append(f"only its first {MOST_CELLS:,} cells were read")
    return found


def _converted(book: dict) -> dict:
    import nbformat  # takes over a second, and hardly ever is one as old as this

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
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        with contextlib.suppress(Exception):  # its parser cannot handle everything; Python will report the error
            return TransformerManager().transform_cell(source)
    return source


def _after_the_checks(lab: Lab) -> set[str]:
    """The lab's own cells that come when all is checked: pictures, the last run, what the student's result is."""
    last = max(check.index for task in lab.tasks for check in task.checks)
    return {cell.id for cell in lab.others if cell.index > last}


def _code_of(task: Task, cells: list[tuple[str, str]]) -> str:
    """The student's code for a task: the cell with its id, and all others that define or assign the task's names."""
    wanted = _defined(task.code.source)
    found = [source for name, source in cells if name == task.code.id or wanted & _bound(source)]
    return "\n\n".join(found)[:LONGEST_KEPT]


def _defined(source: str) -> set[str]:
    """The functions and classes that a cell defines at its top, also where it is no Python."""
    body = _body(source)
    if body is None:
        return set(re.findall(r"^(?:async def|def|class)\s+(\w+)", source, re.M))
    return {node.name for node in body if isinstance(node, DEFINITIONS)}


def _bound(source: str) -> set[str]:
    """All names that a cell binds at its top: what it defines, assigns or imports."""
    found = _defined(source)
    for node in _body(source) or ():
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(name.asname or name.name).partition(".")[0] for name in node.names}
    return found


def _body(source: str) -> list[ast.stmt] | None:
    """The statements of a cell; None where it is no Python."""
    try:
        return ast.parse(python_of(source)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _with_what_is_given(lab: Lab, cells: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The student's cells, with the lab's own of those that it gives: parameters and set-up first, the others before theirs.

    What the student left as it was runs once; of what is missing, the lab's runs before the first cell that followed it. The
    student's values of the parameters are set before the set-up, which uses them; no code of the student's runs before it.
    """
    given = {cell.id: cell for cell in lab.others if cell.id not in _after_the_checks(lab)}
    order = [cell.id for cell in lab.book.code]
    present = {name for name, _ in cells}
    changed = [
        (name, source)
        for name, source in cells
        if name not in given or source_hash(source) != source_hash(given[name].source)
    ]
    whole = [(f"given-{cell.id}", cell.source) for cell in given.values() if cell.id == PARAMETERS]
    chosen, rest = _parameters(whole, "\n".join(source for name, source in changed if name == PARAMETERS))
    whole += [(INJECTED, chosen)] * bool(chosen)
    whole += [(f"given-{cell.id}", cell.source) for cell in given.values() if cell.id == SETUP]
    whole += [(PARAMETERS, rest)] * bool(rest)
    before: dict[str, list[Cell]] = {}
    for name, cell in given.items():
        if name not in (PARAMETERS, SETUP):
            place = name if name in present else next((n for n in order[order.index(name) :] if n in present), "")
            before.setdefault(place, []).append(cell)
    for name, source in cells:
        whole += [(f"given-{cell.id}", cell.source) for cell in before.pop(name, [])]
        if name != PARAMETERS and (name, source) in changed:
            whole.append((name, source))
    whole += [(f"given-{cell.id}", cell.source) for cell in before.pop("", [])]
    return whole


def _parameters(given: list[tuple[str, str]], source: str) -> tuple[str, str]:
    """(the student's values of the lab's parameters, what else stands in the student's cell). The device stays the lab's:
    no submission sees a GPU.
    """
    known = set().union(*(_bound(text) for _, text in given))
    chosen, rest = [], []
    try:
        for node in ast.parse(python_of(source)).body:
            if isinstance(node, ast.Assign) and {getattr(target, "id", "") for target in node.targets} <= known:
                if isinstance(node.value, ast.Constant) and "device" not in {target.id for target in node.targets}:
                    chosen.append(ast.unparse(node))
            else:
                rest.append(ast.unparse(node))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "", source
    return "\n".join(chosen), "\n".join(rest)
