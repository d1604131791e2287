"""What must hold of the cells of a notebook that hold the program which grows through the course."""

import ast
import sys

from utils.course.notebooks import program
from utils.course.notebooks.dataflow import called_name
from utils.course.notebooks.notebook import Cell, Lecture, label_of

IMPORTED = sys.stdlib_module_names | {"torch", "utils.data"}  # what the program may import


def the_program_stands_where_it_grows(lecture: Lecture) -> list[str]:
    """At most one cell holds it as it begins, and one below as it ends, and a notebook before this one holds it too.

    A cell that draws `program.diff(…)` names its own lecture, which changes the program.
    """
    begins, ends = (_tagged(lecture, tag) for tag in (program.BEGIN, program.END))
    problems = [f"cell {cell.id}: one more tagged {tag}" for tag, cells in _both(begins, ends) for cell in cells[1:]]
    if (begins or ends) and not program.may_hold(lecture.path):
        problems.append("the program grows in the lectures, not here")
    if begins and program.before(lecture.path) is None:
        problems.append(f"cell {begins[0].id}: no notebook before this one ends with the program, to begin with")
    if begins and ends and begins[0].index >= ends[0].index:
        problems.append(f"cell {ends[0].id}: the program ends above its beginning")
    for cell in lecture.code:
        for call in _drawn(cell):
            if not call.args or ast.unparse(call.args[0]) != repr(label_of(lecture.name)) or not ends:
                problems.append(
                    f'cell {cell.id}: not program.diff("{label_of(lecture.name)}"), or no {program.END} cell'
                )
    return problems


def the_program_is_plain(lecture: Lecture) -> list[str]:
    """It runs as a file: it is Python, and imports the standard library, torch and utils.data alone."""
    problems = []
    for cell in _tagged(lecture, program.END):
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:
            problems.append(f"cell {cell.id}: not Python by itself")
            continue
        wholes = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
        parts = [node.module or "." for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        strange = [name for name in wholes + parts if not {name, name.partition(".")[0]} & IMPORTED]
        problems += [f"cell {cell.id}: the program imports {name}" for name in strange]
    return problems


def _tagged(lecture: Lecture, tag: str) -> list[Cell]:
    return [cell for cell in lecture.cells if tag in cell.tags]


def _both(begins: list[Cell], ends: list[Cell]) -> list[tuple[str, list[Cell]]]:
    return [(program.BEGIN, begins), (program.END, ends)]


def _drawn(cell: Cell) -> list[ast.Call]:
    """The calls of program.diff in a cell."""
    try:
        nodes = ast.walk(ast.parse(cell.source))
    except SyntaxError:
        return []
    return [node for node in nodes if called_name(node) == "diff" and ast.unparse(node.func) == "program.diff"]
