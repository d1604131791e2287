"""A submission: the cells to run from a student's notebook and from the lab, and notes about anything unusual."""

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache

from utils.course.notebooks.lab import Lab, Task
from utils.course.notebooks.notebook import Cell, source_hash, text_of
from utils.course.notebooks.starter_cells import COUNTING, HAND_IN, is_of_the_checks, without_magic
from utils.course.notebooks.tidy import POINTS
from utils.grader.written import answers_in

LARGEST = 200 << 20  # bytes of a notebook, outputs included
MOST_CELLS = 5_000
LONGEST_SOURCE = 1 << 20  # characters of a cell
LONGEST_QUOTED = 100  # characters of a cell's first line
LONGEST_COPY = 2_000_000  # characters of a notebook of which the student gets a copy with feedback
# A line magic or a shell line, the request for help, and the cell magics that run what stands below them in the notebook.
MAGIC = re.compile(r"(\s*)((?:[\w.,\[\]'\" ]+=\s*)?)(%(?=\w)|!(?!=))(.*)")
HELP = re.compile(r"(\s*)(?=.*\?)\?{0,2}([\w.]+)\?{0,2}\s*")
AROUND_A_CELL = ("%%time", "%%capture", "%%prun")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
PARAMETERS, SETUP = "parameters", "setup"  # of the lab's own cells: they run before all others
OF_STARTERS = (COUNTING.partition("\n")[0], "progress.hand_in()")  # how the cells begin that only a starter has
COUNTS = {"progress", "Progress"}  # the names in the cell that counts the points
INJECTED = "given-injected-parameters"
ELSEWHERE = "cells of one's own"  # in Submission.code, beside the names of tasks
AGAIN = "\n\n# and in another cell, which was run later:\n\n"  # between two cells of one task
REFERENCE = "given-reference-"  # before a task's name: the id of the cell with the lab's own code of it


@dataclass(frozen=True)
class Submission:
    """cells: (id, source) of what is run, in order, as IPython reads it. code: task name -> the student's own text of it, ""
    if not found, with AGAIN between cells; under ELSEWHERE all cells of the student's own, and given ones that were changed.

    given: id -> names that this cell, one of the lab's own, defines: questions find these, whatever was done to them later.
    written: name of a question that a person grades -> the student's text. book: the notebook's cells as they came, without
    outputs, each as {"cell_type", "id", "source"}; none of them where they are too long for a copy.
    """

    cells: tuple[tuple[str, str], ...]
    given: dict[str, tuple[str, ...]]
    code: dict[str, str]
    notes: tuple[str, ...] = ()
    written: dict[str, str] = field(default_factory=dict)
    book: tuple[dict, ...] = ()


class Unreadable(Exception):
    """The submission is not a notebook; the message is a sentence for the student."""


def read_submission(raw: bytes, lab: Lab) -> Submission:
    """What of the notebook file `raw` is graded for `lab`. Raises Unreadable; smaller problems become notes."""
    notes: list[str] = []
    book = _cells(raw, notes)
    cells = [(cell["id"], without_magic(cell["source"])) for cell in book if cell["cell_type"] == "code"]
    ours = {cell.id: cell for cell in lab.book.code}
    checks = {cell.id for task in lab.tasks for cell in task.checks}
    after = _after_the_checks(lab)
    hashes = {source_hash(cell.source): cell.id for cell in lab.book.code}
    in_text = {cell["id"] for cell in book if cell["cell_type"] != "code"}
    cells = _with_parameters_named(cells, lab, hashes)
    matched: list[tuple[str, str]] = []
    for name, source in cells:
        same = hashes.get(source_hash(source), "")
        given = name if name in ours else same
        if same in checks or given in after or is_of_the_checks(source):
            continue
        source = _without_counting(source) if name in (POINTS, HAND_IN) else source
        if not source:
            continue
        if given in checks:
            notes.append(f"{given} was changed; points come from the lab's own")
        matched.append((given or name, source))
    twice = [name for name, count in Counter(name for name, _ in matched).items() if count > 1 and name in ours]
    notes += [f"{name} is there more than once; all were run, in order" for name in twice]
    of_tasks = {task.code.id for task in lab.tasks}
    written = [(name, text) for name, text in matched if name in of_tasks or source_hash(text) not in hashes]
    code = {task.name: _code_of(task, written, notes) for task in lab.tasks}
    own = [source for name, source in written if name not in of_tasks]
    for task in lab.tasks:
        if not code[task.name]:
            as_text = ": its cell is Markdown, which is not run" if task.code.id in in_text else ""
            notes.append(f"task {task.name} was not found{as_text}")
    if not any(code.values()):
        raise Unreadable(f"no task of {lab.name} is in it: is it another lab's file?")
    whole = _with_what_is_given(lab, matched)
    given = {name: tuple(sorted(_names_defined(source))) for name, source in whole if name.startswith("given-")}
    code |= {ELSEWHERE: AGAIN.join(own)}
    copied = book if sum(len(cell["source"]) for cell in book) <= LONGEST_COPY else ()
    return Submission(tuple(whole), given, code, tuple(notes), answers_in(book, lab), tuple(copied))


def is_starter(raw: bytes, lab: Lab) -> bool:
    """Whether the notebook has no code but the lab's own and that of its tasks' starters. Not of a very long one: a starter
    is short, and this is asked where no limit of memory holds.
    """
    if len(raw) > LONGEST_COPY:
        return False
    ours = [*lab.others, *(task.check for task in lab.tasks)]
    ids = {cell.id for cell in ours} | {POINTS, HAND_IN}
    given = {source_hash(source) for source in (*(t.starter for t in lab.tasks), *(c.source for c in ours))}
    try:
        cells = [cell for cell in json.loads(raw.decode("utf-8-sig"))["cells"] if cell["cell_type"] == "code"]
        others = [text_of(cell["source"]) for cell in cells if cell.get("id") not in ids]
        # A starter's cells have a line before what the lab's own have: a comment, or a magic.
        return all(
            {source_hash(source), source_hash(source.partition("\n")[2])} & given
            for source in others
            if source.strip() and not source.startswith(OF_STARTERS) and not is_of_the_checks(source)
        )
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return False


def depends_on(lab: Lab, task: Task, code: dict[str, str]) -> list[str]:
    """The tasks before `task` whose code it calls, straight or through others: as the lab says, and as the code does.

    code: the student's, as in Submission.code; the lab's own is looked at too.
    """
    before: dict[str, list[Task]] = {each.name: list(lab.tasks[:number]) for number, each in enumerate(lab.tasks)}
    by_name = {each.name: each for each in lab.tasks}
    found, todo = set(), [task]
    while todo:
        now = todo.pop()
        named = _names_mentioned(now.code.source) | _names_mentioned(code.get(now.name, ""))
        needed = set(now.needs) | {each.name for each in before[now.name] if _names_defined(each.code.source) & named}
        todo += [by_name[name] for name in needed - found]
        found |= needed
    return [each.name for each in lab.tasks if each.name in found]


def with_reference(submission: Submission, lab: Lab, names: list[str], task: Task) -> Submission:
    """The submission to grade `task` with, in which the lab's own code of the tasks `names` counts, not the student's.

    It is run right after the student's, so that the student's helper functions stay, and again after the last cell that
    defines the same names; before the task's own code where the student has none.
    """
    cells, given = list(submission.cells), dict(submission.given)
    for name in names:
        source = next(each.code.source for each in lab.tasks if each.name == name)
        wanted = _names_defined(source)
        own = [
            index + 1
            for index, (cell, text) in enumerate(cells)
            if cell == f"code-{name}" or (not cell.startswith("given-") and wanted & _names_bound(text))
        ]
        start = next((index for index, (cell, _) in enumerate(cells) if cell == task.code.id), len(cells))
        for place in sorted({own[0], own[-1]} if own else {start}, reverse=True):
            cells.insert(place, (REFERENCE + name, source))
        given[REFERENCE + name] = tuple(sorted(wanted))
    return replace(submission, cells=tuple(cells), given=given)


def functions_of(task: Task) -> list[str]:
    """What the student is to write in a task, by name, in its order."""
    return [node.name for node in _body(task.code.source) or () if isinstance(node, DEFINITIONS)]


@cache
def _names_mentioned(source: str) -> frozenset[str]:
    """All names in a cell; all its words where it is no Python."""
    body = _body(source)
    if body is None:
        return frozenset(re.findall(r"\w+", source))
    return frozenset(node.id for part in body for node in ast.walk(part) if isinstance(node, ast.Name))


def _cells(raw: bytes, notes: list[str]) -> list[dict]:
    """Each cell as {"cell_type", "id", "source"}. A code cell without an id gets one by its tag, or by its number."""
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
        book = _convert(book)
    cells = book.get("cells")
    if not isinstance(cells, list) or not cells:
        raise Unreadable("a notebook without cells")
    found, number = [], 0
    for cell in cells[:MOST_CELLS]:
        if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
            continue
        number += cell["cell_type"] == "code"
        source = _source_of(cell)
        about = cell.get("metadata") or {}
        about = about if isinstance(about, dict) else {}
        tagged = isinstance(about.get("tags"), list) and PARAMETERS in about["tags"]
        name = cell.get("id") or about.get("id") or (PARAMETERS if tagged else "")
        known = isinstance(name, str) and re.fullmatch(r"(?!given-)[\w-]{1,64}", name)
        name = name if known else f"cell-{number}" if cell["cell_type"] == "code" else ""
        found.append({"cell_type": cell["cell_type"], "id": name, "source": source})
    if len(cells) > MOST_CELLS:
        notes.append(f"only its first {MOST_CELLS:,} cells were read")
    return found


def _convert(book: dict) -> dict:
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


@cache
def python_of(source: str) -> str:
    """A cell as Python: magics and shell lines become calls of get_ipython(), each for itself. IPython's own transformer
    takes the tokens of the whole cell again for each, which a cell of many can make last for hours.
    """
    try:
        ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        first, _, rest = source.lstrip().partition("\n")
        if first.startswith(AROUND_A_CELL):
            return python_of(rest)
        if first.startswith("%%"):
            return f"get_ipython().run_cell_magic({first!r}, {rest!r})"
        return "\n".join(map(_line_as_python, source.split("\n")))
    return source


def _line_as_python(line: str) -> str:
    if match := HELP.fullmatch(line):
        return f"{match[1]}get_ipython().run_line_magic('pinfo', {match[2]!r})"
    if not (match := MAGIC.fullmatch(line)):
        return line
    start, assigned, sign, text = match.groups()
    if sign == "!":
        return f"{start}{assigned}get_ipython().{'getoutput' if assigned else 'system'}({text!r})"
    name, _, rest = text.partition(" ")
    return f"{start}{assigned}get_ipython().run_line_magic({name!r}, {rest!r})"


def _without_counting(source: str) -> str:
    """What a student has written into a cell that only a starter has, which counts the points there."""
    return "\n".join(
        ast.unparse(part)
        for part in _body(source) or ()
        if not COUNTS & {getattr(node, "id", "") or getattr(node, "name", "") for node in ast.walk(part)}
    )


def _with_parameters_named(cells: list[tuple[str, str]], lab: Lab, hashes: dict[str, str]) -> list[tuple[str, str]]:
    """The cells (id, source), with the name PARAMETERS for all that set one and come before all later ones of the lab: the
    given one, where ids and tags were lost, and cells of the student's own. hashes: source_hash -> id of the lab's cells.
    """
    order = [cell.id for cell in lab.book.code]
    given = [(cell.id, cell.source) for cell in lab.others if cell.id == PARAMETERS]
    names = [name if name in order else hashes.get(source_hash(source), "") for name, source in cells]
    if not given:
        return cells
    known = _names_bound(given[0][1])
    later = order[order.index(PARAMETERS) + 1 :]
    wanted = set().union(*(_names_defined(task.code.source) for task in lab.tasks))
    found = []
    for number, (name, source) in enumerate(cells):
        if names[number] in later or wanted & _names_bound(source):
            return found + cells[number:]
        found.append((PARAMETERS if known & _names_bound(source) else name, source))
    return found


def _after_the_checks(lab: Lab) -> set[str]:
    """The lab's own cells that come when all is checked: pictures, the last run, what the student's result is."""
    last = max(check.index for task in lab.tasks for check in task.checks)
    return {cell.id for cell in lab.others if cell.index > last}


def _code_of(task: Task, cells: list[tuple[str, str]], notes: list[str]) -> str:
    """The student's code for a task: the cell with its id, and all others that define or assign the task's names."""
    wanted = _names_defined(task.code.source)
    found = [(name, source) for name, source in cells if name == task.code.id or wanted & _names_bound(source)]
    binding = [
        ((source.strip().splitlines() or [""])[0][:LONGEST_QUOTED], wanted & _names_bound(source))
        for _, source in found
    ]
    for name in sorted(wanted):
        places = [start for start, names in binding if name in names]
        if len({source for _, source in found}) > 1 and len(places) > 1:
            notes.append(
                f"{name} is defined {len(places)} times; the last one counts, in the cell that begins: {places[-1]}"
            )
    return AGAIN.join(dict.fromkeys(source for _, source in found))


@cache  # it is asked of each cell once for each task
def _names_defined(source: str) -> frozenset[str]:
    """The functions and classes that a cell defines in the notebook, also where it is no Python."""
    body = _body(source)
    if body is None:
        return frozenset(re.findall(r"^(?:async def|def|class)\s+(\w+)", source, re.M))
    return frozenset(node.name for node in _outside_of_functions(body) if isinstance(node, DEFINITIONS))


@cache
def _names_bound(source: str) -> frozenset[str]:
    """All names that a cell binds in the notebook: what it defines, assigns or imports."""
    found = _names_defined(source)
    for node in _outside_of_functions(_body(source) or ()):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(name.asname or name.name).partition(".")[0] for name in node.names}
    return found


def _outside_of_functions(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The statements of a cell, with those inside an `if`, a `try`, a loop or a `with`."""
    todo = list(body)
    while todo:
        node = todo.pop()
        yield node
        if not isinstance(node, DEFINITIONS):
            inner = ast.stmt | ast.ExceptHandler | ast.match_case
            todo += [child for child in ast.iter_child_nodes(node) if isinstance(child, inner)]


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
    parts = [_parameters(whole, source) for name, source in changed if name == PARAMETERS]
    chosen, rest = ("\n".join(filter(None, texts)) for texts in (zip(*parts, strict=True) if parts else ("", "")))
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
    known = set().union(*(_names_bound(text) for _, text in given))
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
