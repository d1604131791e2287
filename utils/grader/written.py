"""Questions that a person grades: which a lab has, and what a student wrote.

A question is two Markdown cells of the solution, one after the other, outside the cells of the tasks:

    question-NAME  or any other id: what to write, and what earns how many points
    written-NAME   where to write, with `points` in the cell's metadata; its text is what the student replaces
"""

import re
from dataclasses import dataclass

from utils.course.notebooks.lab import Lab, points_of
from utils.course.notebooks.notebook import Cell, source_hash

WRITTEN = re.compile(r"written-([a-z0-9-]+)")
LONGEST = 20_000  # characters of an answer


@dataclass(frozen=True)
class Question:
    """One of them. `place`: the cell to write in, as the starter has it; `prose`: the cell before it."""

    name: str
    points: int
    prose: Cell
    place: Cell


def questions(lab: Lab) -> list[Question]:
    """The lab's, in order. ValueError, naming the cell, for one without points, or of a task's name."""
    found = []
    for cell in lab.book.cells:
        if match := WRITTEN.fullmatch(cell.id):
            if match[1] in [task.name for task in lab.tasks]:
                raise ValueError(f"cell {cell.id}: {match[1]} is a task of this lab; give the question another name")
            found.append(Question(match[1], points_of(cell), lab.book.cells[cell.index - 1], cell))
    return found


def answers_in(book: list[dict], lab: Lab) -> dict[str, str]:
    """name -> what the student wrote, "" for nothing: in the question's cell, and in Markdown cells of their own below it.

    book: the notebook's cells, each with "cell_type", "id" and "source".
    """
    ids = {cell.id for cell in lab.book.cells}
    hashes = {source_hash(cell.source) for cell in lab.book.cells}
    found = {}
    for question in questions(lab):
        start = _place(book, question)
        parts = [] if start is None else [book[start]["source"]]
        for cell in book[start + 1 :] if parts else ():
            if cell["cell_type"] != "markdown" or cell["id"] in ids or source_hash(cell["source"]) in hashes:
                break
            parts.append(cell["source"])
        text = "\n\n".join(parts).replace(question.place.source.strip(), "")
        found[question.name] = text.strip()[:LONGEST]
    return found


def _place(book: list[dict], question: Question) -> int | None:
    """The index of the cell to write in: by its id, or as the one after the question, where ids were lost."""
    for index, cell in enumerate(book):
        if cell["cell_type"] == "markdown" and cell["id"] == question.place.id:
            return index
    for index, cell in enumerate(book[:-1]):
        if source_hash(cell["source"]) == source_hash(question.prose.source):
            return index + 1
    return None
