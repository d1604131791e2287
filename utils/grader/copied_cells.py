"""The cells of a student's notebook that are copied for them, with what came of them where that is text or a picture."""

import json
from collections.abc import Iterable

from utils.course.notebooks.notebook import text_of

HARMLESS = {"text/plain", "image/png", "image/jpeg"}  # HTML and JavaScript would run in the browser of who opens it


def executed_cells(executed: bytes) -> list[dict]:
    """The cells of a notebook that was run, with those of their outputs that are texts and pictures; [] if it is none."""
    try:
        cells = cells_to_copy(json.loads(executed.decode())["cells"])
        for output in (output for cell in cells for output in cell.get("outputs", ())):
            if "data" in output:
                output["data"] = {kind: value for kind, value in output["data"].items() if kind in HARMLESS}
                output["metadata"] = {}
    except (ValueError, RecursionError, MemoryError, KeyError, TypeError, AttributeError):
        return []
    return cells


def cells_to_copy(cells: Iterable[dict]) -> list[dict]:
    """The parts of a student's cells that are copied. A cell without an id of its own gets one by its number."""
    kept, ids = [], set()
    for number, cell in enumerate(cells):
        name, source = cell.get("id"), text_of(cell["source"])
        name = name if name and name not in ids else f"cell-{number}-of-the-hand-in"
        ids.add(name)
        copied = {"cell_type": cell["cell_type"], "id": name, "metadata": {}, "source": source}
        if cell["cell_type"] == "code":
            copied |= {"execution_count": cell.get("execution_count"), "outputs": cell.get("outputs", [])}
        kept.append(copied)
    return kept
