"""What students write in place of a lab's solution, kept as the few lines in which it differs.

A lab's file lists its misconceptions, task by task:

    LAB = variants_of("04_micrograd_and_numpy")

    wrong, right = LAB.task("value")

    wrong("product slopes swapped", ("(self, other.data)", "(self, self.data)"), says=["result = a * b", "b's number"])
    right("with one line for both kinds", '''…the whole cell…''')

A change is a pair (what stands in the solution's cell, what the student has there: "" for nothing); there may be
several. A text alone is the student's whole cell. `of`: the changes are made in this code, another way to write it that
is as right.

What is to be replaced must occur exactly once in the code, which is the solution's without its marks. Of a snippet of
several lines all but the first are indented as far as the line it begins in, and a new text is indented in the same
way. A text that begins with a line break is dedented first.

`says`: parts of the message with which the task's check fails. A right variant passes the checks of its task and,
together with right variants of other tasks, those of the tasks that need it; `alone`: it is so slow that it passes only
the first.
"""

import ast
import importlib
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Change = tuple[str, str]


@dataclass(frozen=True)
class Variant:
    """A student's code for the cell code-TASK: wrong, and then the check must say so, or as right as the solution's."""

    lab: str
    task: str
    name: str
    right: bool
    changes: tuple[Change, ...] | str  # a text: the whole cell
    of: str | None = None
    says: tuple[str, ...] = ()
    alone: bool = False

    @property
    def id(self) -> str:
        kind = "right" if self.right else "wrong"
        return f"{self.lab}-{kind}_{self.task}_{self.name}".replace(" ", "_")

    def code(self, solution: str) -> str:
        """The student's cell, given the solution's. ValueError, naming the variant, for a change that fits nowhere."""
        if isinstance(self.changes, str):
            return dedented(self.changes)
        code = solved(solution) if self.of is None else dedented(self.of)
        for old, new in self.changes:
            try:
                code = replaced(code, dedented(old), dedented(new))
            except ValueError as error:
                raise ValueError(f"{self.id}: {error}") from None
        return code


class Variants(list[Variant]):
    """All variants of a lab."""

    def __init__(self, lab: str):
        self.lab = lab

    def task(self, name: str) -> tuple[Callable[..., None], Callable[..., None]]:
        """What adds a wrong and a right variant of the task, given its name and its changes, or the whole cell."""

        def wrong(variant: str, *changes: Change | str, says: list[str], of: str | None = None) -> None:
            self.append(Variant(self.lab, name, variant, False, _changes(variant, changes), of, tuple(says)))

        def right(variant: str, *changes: Change | str, of: str | None = None, alone: bool = False) -> None:
            self.append(Variant(self.lab, name, variant, True, _changes(variant, changes), of, alone=alone))

        return wrong, right


def variants_of(lab: str) -> Variants:
    return Variants(lab)


def all_variants() -> list[Variant]:
    """The variants of all labs: each file beside this one called lab_….py has a list of them, LAB."""
    files = sorted(Path(__file__).parent.glob("lab_*.py"))
    return [variant for file in files for variant in importlib.import_module(file.stem).LAB]


def solved(solution: str) -> str:
    """A solution's cell without its marks, and without the starter's text after ### INSTEAD."""
    kept = re.sub(r"^ *### INSTEAD\n.*?(?=^ *### END)", "", solution, flags=re.M | re.S)
    return "\n".join(line for line in kept.split("\n") if not re.match(" *### (BEGIN|END) SOLUTION", line))


RUN = "this line was run"


def stopped_where_it_differs(code: str, solution: str) -> str:
    """The code with `raise RuntimeError(RUN)` for each statement in its functions that the solution does not have.

    A check that passes this has never run what is other in the code.
    """
    tree = _Stopped({ast.unparse(node) for node in ast.walk(ast.parse(solution)) if isinstance(node, ast.stmt)})
    return ast.unparse(ast.fix_missing_locations(tree.visit(ast.parse(code))))


class _Stopped(ast.NodeTransformer):
    def __init__(self, known: set[str]):
        self.known = known

    def visit_FunctionDef(self, function: ast.FunctionDef) -> ast.FunctionDef:
        function.body = [self._stopped(statement) for statement in function.body]
        return function

    def _stopped(self, statement: ast.stmt) -> ast.stmt:
        """The statement as it is, or stopped: a loop or a branch within its body, if that has other lines."""
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            return self.visit(statement)
        before = ast.unparse(statement)
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if is_text or isinstance(statement, ast.Import | ast.ImportFrom) or before in self.known:
            return statement
        for field, value in ast.iter_fields(statement):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                setattr(statement, field, [self._stopped(inner) for inner in value])
        return statement if ast.unparse(statement) != before else ast.parse(f"raise RuntimeError({RUN!r})").body[0]


def dedented(text: str) -> str:
    return textwrap.dedent(text).strip("\n") if text.startswith("\n") else text


def replaced(code: str, old: str, new: str) -> str:
    """The code with `new` where it has `old`. ValueError unless it has that exactly once."""
    found = []
    for match in re.finditer(re.escape(old.split("\n")[0]), code) if old else ():
        indent = re.match(" *", code[code.rfind("\n", 0, match.start()) + 1 :])[0]
        if code.startswith(_indented(old, indent), match.start()):
            found.append((match.start(), indent))
    if len(found) != 1:
        raise ValueError(f"{old!r} occurs {len(found)} times in this code, not once:\n\n{code}")
    ((start, indent),) = found
    return code[:start] + _indented(new, indent) + code[start + len(_indented(old, indent)) :]


def _indented(text: str, indent: str) -> str:
    first, *rest = text.split("\n")
    return "\n".join([first, *(indent + line if line else line for line in rest)])


def _changes(name: str, changes: tuple[Change | str, ...]) -> tuple[Change, ...] | str:
    if len(changes) == 1 and isinstance(changes[0], str):
        return changes[0]
    if not changes or not all(isinstance(change, tuple) and len(change) == 2 for change in changes):
        raise ValueError(f"{name}: changes are pairs (old, new), or one text, the whole cell")
    return changes
