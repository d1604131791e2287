"""The last cell of a lecture: the lecture before, the index, the lab, the second readings, the lecture after."""

from pathlib import Path

from utils.course.notebooks.notebook import DEEPER, START, in_order, is_lecture, read

CELL = "navigation"  # the cell's id
INDEX = "README.md#lectures-and-labs"
FOLDER = "notebooks"


def navigation(path: Path) -> str:
    """The links for a notebook of the course's folder notebooks/; "" for one that is no lecture, and in other folders."""
    path = path.resolve()
    if path.parent.name not in (FOLDER, DEEPER) or not (is_lecture(path) or path.name == START):
        return ""
    if path.parent.name == DEEPER:
        (lecture,) = path.parents[1].glob(f"{path.name[:2]}_*.ipynb")
        return f"{_link(lecture, '../')} · [all lectures](../../{INDEX})"
    order = in_order(path.parent)
    at = order.index(path)
    number = path.name[:2]
    labs = sorted((path.parents[1] / "labs").glob(f"{number}*_*.ipynb"))
    parts = [
        *(f"← {_link(book)}" for book in order[max(at - 1, 0) : at]),
        f"[all lectures](../{INDEX})",
        *(f"[{read(lab).title.replace(' · ', ': ')}](../labs/{lab.name})" for lab in labs),
        *(f"deeper: {_link(book, f'{DEEPER}/')}" for book in sorted((path.parent / DEEPER).glob(f"{number}_*.ipynb"))),
        *(f"{_link(book)} →" for book in order[at + 1 : at + 2]),
    ]
    return " · ".join(parts)


def with_navigation(book: dict, path: Path) -> dict:
    """The notebook's JSON with its links in the last cell."""
    source = navigation(path)
    cells = [cell for cell in book["cells"] if cell.get("id") != CELL]
    if source:
        cells.append({"cell_type": "markdown", "id": CELL, "metadata": {}, "source": source})
    return book | {"cells": cells}


def _link(book: Path, folder: str = "") -> str:
    return f"[{read(book).title.replace(' · ', ' ', 1)}]({folder}{book.name})"
