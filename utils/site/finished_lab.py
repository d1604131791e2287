"""A lab's page shows what a finished lab shows: the pictures of its given cells, and nothing of the solution itself."""

import re

from utils.course.notebooks.lab import solution_lines
from utils.course.notebooks.notebook import Cell, Lecture, parsed, text_of
from utils.course.notebooks.starter_cells import HAND_IN, without_magic
from utils.course.notebooks.tidy import CHECK, POINTS

STUDENTS = ("code-", CHECK)  # how the ids of a task's own cells begin: what these print is for the student to find
FINISHED = "finished"  # the key in a cell's metadata that says where its outputs come from
TELLING = 12  # letters: a shorter piece of a solution, such as "else:", gives nothing away
WORDS = re.compile(r'"([^"]*)"')  # in a line of code; what stands in braces in them is no text yet


def with_finished_outputs(lab: Lecture, solution: Lecture) -> Lecture:
    """The lab as students get it, with what its given cells show in the executed `solution`.

    A cell is given if it is no task's and the solution has the same code in it. Errors, warnings, and outputs that quote
    a line of the solution, or words that its lines say, are left out.
    """
    lines = [line for cell in solution.code for line in solution_lines(cell.source)]
    said = [piece.strip() for line in lines for words in WORDS.findall(line) for piece in re.split(r"{[^}]*}", words)]
    secrets = {piece for piece in (*lines, *said) if len(piece) >= TELLING}
    there = {cell.id: cell for cell in solution.code}
    cells = []
    for cell in lab.cells:
        raw = cell.raw
        if cell.kind == "code" and _is_given(cell, there.get(cell.id)):
            outputs = [each for each in there[cell.id].raw.get("outputs", []) if _gives_nothing_away(each, secrets)]
            raw = raw | {"outputs": outputs, "metadata": raw["metadata"] | {FINISHED: bool(outputs)}}
        cells.append(raw)
    return parsed(lab.raw | {"cells": cells}, lab.path)


def _is_given(cell: Cell, solved: Cell | None) -> bool:
    """Whether the lab's cell is no student's, and runs in the solution as it stands."""
    students = cell.id.startswith(STUDENTS) or cell.id in (POINTS, HAND_IN)
    return not students and solved is not None and without_magic(cell.source) == solved.source


def _gives_nothing_away(output: dict, secrets: set[str]) -> bool:
    if output["output_type"] == "error" or output.get("name") == "stderr":  # both quote code
        return False
    data = output.get("data", {"text/plain": output.get("text", "")})
    texts = [text_of(text) for kind, text in data.items() if kind.startswith("text/")]
    return not any(secret in text for secret in secrets for text in texts)
