"""The numbers of a lab's tasks: tidy counts them, and every text of the lab that names a task by its number follows."""

import re

from utils.course.notebooks.notebook import text_of

HEADING = re.compile(r"## Task(?: (\d+))? · ")
NAMED = re.compile(r"\b[Tt]asks? \d++(?:(?:,| and| to) \d++)*+(?! of lab)")


def with_tasks_numbered(cells: list[dict]) -> list[dict]:
    """A notebook's cells, with the headings of its cells task-… numbered in order. A new task begins `## Task · Its title`.

    Where two tasks have one number nothing changes, since no text could tell which of them it means: the lint says so.
    """
    heads = {cell["id"]: HEADING.match(text_of(cell["source"])) for cell in cells if cell["id"].startswith("task-")}
    new = {name: str(number) for number, name in enumerate(heads, 1)}
    had = {name: head[1] for name, head in heads.items() if head and head[1]}
    renumbered = {old: new[name] for name, old in had.items()}
    if len(renumbered) < len(had):
        return cells

    def mended(cell: dict) -> dict:
        text = NAMED.sub(
            lambda named: re.sub(r"\d+", lambda old: renumbered.get(old[0], old[0]), named[0]), text_of(cell["source"])
        )
        if heads.get(cell["id"]):
            text = HEADING.sub(f"## Task {new[cell['id']]} · ", text, count=1)
        return cell | {"source": text.splitlines(keepends=True)}

    return [mended(cell) for cell in cells]
