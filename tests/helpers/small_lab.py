"""A small lab that is in order, and that tests put out of order."""

from pathlib import Path

from utils.course.notebooks.colab_links import address_of, cell_source, title_source
from utils.course.notebooks.lab import Lab, read_lab
from utils.course.notebooks.tidy import FOLDED, METADATA, as_bytes

HINTS = "<details><summary>Hint</summary>\n\nRead.\n</details>\n" * 3
DOUBLE = '''def double(x: int) -> int:
    """Twice x."""
    ### BEGIN SOLUTION: double: add it to itself
    twice = x + x
    return twice
    ### END SOLUTION'''
SMALL = [
    ("title", title_source("# Lab 99", "labs/99_small.ipynb", address_of())),
    ("colab", cell_source("labs/99_small.ipynb", address_of())),
    ("parameters", 'device = "cpu"\nseed = 0'),
    ("setup-intro", "First."),
    ("setup", "from utils.lab import Ask, expect_equal\n\nask = Ask(globals(), device)"),
    ("task-double", "## Task 1 · Double\n\n**By hand.** 2 is 4."),
    ("hints-double", HINTS),
    ("code-double", DOUBLE),
    ("check-double", 'expect_equal(ask("double(x)", x=2), 4, next_step="add")'),
    ("hidden-double", 'expect_equal(ask("double(x)", x=seed), 2 * seed, next_step="add")'),
    ("ways-double", "### Other ways\n\n```python\ndouble = (2).__mul__\n```"),
    ("your-picture", "Look."),
    ("picture-double", "[double(n) for n in range(3)]"),
    ("reading-double", "It grows."),
    ("your-line", 'print(f"{seed} makes {double(seed)}")'),
    ("beyond", "## Beyond the path\n\nTriple it."),
]
PROSE = {
    "title",
    "setup-intro",
    "task-double",
    "hints-double",
    "ways-double",
    "your-picture",
    "reading-double",
    "beyond",
}
METAS = {
    "colab": FOLDED,
    "title": {"goals": ["double a number"], "builds_on": "lecture 99"},
    "parameters": {"tags": ["parameters"]},
    "task-double": {"minutes": 5, "difficulty": 1, "importance": 3},
    "check-double": {"points": 1},
    "hidden-double": {"points": 1, "tags": ["hidden"]},
}


def book(changes: dict[str, str | None] | None = None, metadata: dict[str, dict] | None = None) -> dict:
    """A small lab that is in order; `changes`: cell id -> other source, or None to leave the cell out."""
    cells = []
    for name, source in SMALL:
        source = (changes or {}).get(name, source)
        if source is None:
            continue
        kind = "markdown" if name in PROSE else "code"
        cell = {"cell_type": kind, "id": name, "metadata": (metadata or {}).get(name, METAS.get(name, {}))}
        cell |= {"source": source.splitlines(keepends=True)}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    return {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}


def lab_of(folder: Path, raw: dict) -> Lab:
    path = folder / "99_small.ipynb"
    path.write_bytes(as_bytes(raw))
    return read_lab(path)
