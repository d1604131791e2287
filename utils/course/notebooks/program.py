"""The one program that grows through the course: which cell holds a stage of it, and where each stage is handed on to.

A notebook's cell with the tag program-end holds the program as the notebook leaves it. Its text is written, by `make tidy`,
into the cell with the tag program-begin of the notebooks after it, up to the next one that ends with a program of its own,
and into a file in program/. The order is that of `in_order`; notebooks without such cells are passed over.
"""

from pathlib import Path

from utils.course.notebooks.navigation import FOLDER as NOTEBOOKS
from utils.course.notebooks.notebook import START, in_order, is_lecture, label_of, load, text_of

FOLDER = "program"  # beside the notebooks, for the files
BEGIN, END = "program-begin", "program-end"  # tags


def may_hold(path: Path) -> bool:
    """Whether a notebook is one of those through which the program grows."""
    return path.resolve().parent.name == NOTEBOOKS and (is_lecture(path) or path.name == START)


def text_with(tag: str, book: dict) -> str | None:
    """The text of the cell with this tag in a notebook's JSON; None if there is none."""
    cells = (cell for cell in book["cells"] if tag in cell.get("metadata", {}).get("tags", []))
    return next((text_of(cell["source"]).strip("\n") for cell in cells), None)


def before(path: Path) -> str | None:
    """The program as the notebooks before this one leave it; None if none of them holds one."""
    books = in_order(path.parent)
    earlier = books[: books.index(path)] if path in books else []
    return next((text for book in reversed(earlier) if (text := text_with(END, load(book))) is not None), None)


def with_beginning(book: dict, path: Path) -> dict:
    """The JSON of the notebook `path`, whose cell with the tag BEGIN says what the notebooks before it leave."""
    if text_with(BEGIN, book) is None or not may_hold(path) or (text := before(path)) is None:
        return book
    source = text.splitlines(keepends=True)
    begins = (BEGIN in cell.get("metadata", {}).get("tags", []) for cell in book["cells"])
    cells = [cell | {"source": source} if own else cell for cell, own in zip(book["cells"], begins, strict=True)]
    return book | {"cells": cells}


def files(folder: Path) -> dict[Path, bytes]:
    """The files of the program's stages: of each notebook in `folder` that ends with one, in order, with their content."""
    found = {}
    for path in in_order(folder):
        if (text := text_with(END, load(path))) is not None:
            found[folder / FOLDER / f"{path.stem}.py"] = f"{_head(path)}\n\n{text}\n".encode()
    return found


def _head(path: Path) -> str:
    label = label_of(path.stem)
    place = f"after lecture {label}" if label.isdecimal() else "after the capstone" if label else "of start_here"
    return f"# The program {place}. Written by make tidy from {path.name}: edit its last program cell."


def changed_files(folder: Path) -> dict[Path, bytes | None]:
    """The files that are not as they would be written, with their content; None for one that nothing stands for."""
    wanted = files(folder)
    changed = {path: text for path, text in wanted.items() if not path.exists() or path.read_bytes() != text}
    return changed | {path: None for path in sorted((folder / FOLDER).glob("*.py")) if path not in wanted}
