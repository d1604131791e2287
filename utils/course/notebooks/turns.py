"""The turns of a notebook: the cells in which a student writes something, and those with our answer."""

import ast
from dataclasses import dataclass

from utils.course.notebooks.dataflow import OURS, YOUR_TURN
from utils.course.notebooks.notebook import Cell, Lecture


@dataclass(frozen=True)
class Half:
    """One half of a turn: the cell, and the function in it that is decorated."""

    cell: Cell
    function: ast.FunctionDef

    @property
    def name(self) -> str:
        return self.function.name


@dataclass(frozen=True)
class Turn:
    """The student's half of a turn and the function of ours in the code cell above it, None where there is none."""

    yours: Half
    ours: Half | None


def turns_of(lecture: Lecture) -> list[Turn]:
    found = []
    for above, cell in zip([None, *lecture.code[:-1]], lecture.code, strict=True):
        answers = {half.name: half for half in halves(above, OURS)} if above else {}
        found += [Turn(half, answers.get(half.name)) for half in halves(cell, YOUR_TURN)]
    return found


def halves(cell: Cell, decorator: str) -> list[Half]:
    """The functions of a cell that are decorated by @decorator or @decorator(…)."""
    try:
        body = ast.parse(cell.source).body
    except SyntaxError:
        return []  # another rule's business
    functions = [node for node in body if isinstance(node, ast.FunctionDef)]
    return [Half(cell, node) for node in functions if any(_name(each) == decorator for each in node.decorator_list)]


def _name(decorator: ast.expr) -> str:
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return function.id if isinstance(function, ast.Name) else ""
